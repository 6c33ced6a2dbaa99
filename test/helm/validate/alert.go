package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// alertCase asks which alerts fire at the end of series that are written down minute by minute, in the notation of promtool
// (`name{label="value"} 0+1x30`); `_` is a scrape that lacks the series.
type alertCase struct {
	Name   string   `json:"name"`
	Expr   string   `json:"expr"`
	For    string   `json:"for"`
	Series []string `json:"series"`
	Minute int      `json:"minute"`
	// Labels of each alert that is to fire, as Prometheus writes them.
	Firing []string `json:"firing"`
}

// check evaluates the expression each minute as Prometheus would, and says whether others fire than are to.
func (c alertCase) check() []string {
	hold := time.Duration(0)
	if c.For != "" {
		var err error
		if hold, err = time.ParseDuration(c.For); err != nil {
			return []string{c.Name + ": " + err.Error()}
		}
	}
	series, err := c.read()
	if err != nil {
		return []string{c.Name + ": " + err.Error()}
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples:    1_000_000,
		Timeout:       time.Minute,
		LookbackDelta: 90 * time.Second,
		Parser:        parser.NewParser(parser.Options{}),
	})
	since := map[string]int{}
	for minute := 0; minute <= c.Minute; minute++ {
		active, err := evaluate(engine, series, c.Expr, minute)
		if err != nil {
			return []string{c.Name + ": " + err.Error()}
		}
		for of := range since {
			if !active[of] {
				delete(since, of)
			}
		}
		for of := range active {
			if _, known := since[of]; !known {
				since[of] = minute
			}
		}
	}
	firing := []string{}
	for of, minute := range since {
		if time.Duration(c.Minute-minute)*time.Minute >= hold {
			firing = append(firing, of)
		}
	}
	slices.Sort(firing)
	slices.Sort(c.Firing)
	if slices.Equal(firing, c.Firing) {
		return nil
	}
	return []string{fmt.Sprintf("%s: fires for %v, not for %v", c.Name, firing, c.Firing)}
}

func (c alertCase) read() ([]storage.Series, error) {
	all := []storage.Series{}
	for _, line := range c.Series {
		of, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		points := []chunks.Sample{}
		for minute, value := range values {
			if !value.Omitted {
				points = append(points, point{at(minute).UnixMilli(), value.Value})
			}
		}
		all = append(all, storage.NewListSeries(of, points))
	}
	return all, nil
}

// evaluate answers the labels of what the expression finds.
func evaluate(engine *promql.Engine, all []storage.Series, expr string, minute int) (map[string]bool, error) {
	pick := func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		picked := []storage.Series{}
		for _, series := range all {
			of := series.Labels()
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(of.Get(m.Name)) }) {
				picked = append(picked, series)
			}
		}
		return &seriesSet{left: picked}
	}
	written := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: pick}}
	query, err := engine.NewInstantQuery(context.Background(), written, nil, expr, at(minute))
	if err != nil {
		return nil, err
	}
	defer query.Close()
	result := query.Exec(context.Background())
	found, err := result.Vector()
	if err != nil {
		return nil, err
	}
	active := map[string]bool{}
	for _, sample := range found {
		active[strings.ReplaceAll(sample.Metric.DropReserved(isName).String(), `"`, "")] = true
	}
	return active, nil
}

// point is a value of a series.
type point struct {
	milliseconds int64
	value        float64
}

func (p point) T() int64 { return p.milliseconds }

func (p point) F() float64 { return p.value }

func (point) ST() int64 { return 0 }

func (point) H() *histogram.Histogram { return nil }

func (point) FH() *histogram.FloatHistogram { return nil }

func (point) Type() chunkenc.ValueType { return chunkenc.ValFloat }

func (p point) Copy() chunks.Sample { return p }

// seriesSet walks over series.
type seriesSet struct {
	left    []storage.Series
	current storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.current, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series { return s.current }

func (*seriesSet) Err() error { return nil }

func (*seriesSet) Warnings() annotations.Annotations { return nil }

func isName(name string) bool { return name == labels.MetricName }

func at(minute int) time.Time { return time.Unix(int64(minute)*60, 0) }
