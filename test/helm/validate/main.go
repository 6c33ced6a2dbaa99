// validate reads JSON lines. An object of the Gateway API or of the Prometheus operator is held to its Go type: a member that
// the type does not have, or one of another type, is a fault. {"promql": "…"} is parsed, and {"rules": "…"} is held to what Prometheus
// wants of a file of rules, templates of annotations included. {"alert": {…}} is evaluated (alert.go). It prints one line a fault and ends with 1.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	kjson "sigs.k8s.io/json"
)

var types = map[string]func() any{
	"gateway.networking.k8s.io/v1 HTTPRoute":  func() any { return new(gateway.HTTPRoute) },
	"gateway.networking.k8s.io/v1 GRPCRoute":  func() any { return new(gateway.GRPCRoute) },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
	"monitoring.coreos.com/v1 PodMonitor":     func() any { return new(monitoring.PodMonitor) },
	"monitoring.coreos.com/v1 PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
}

func main() {
	faults := 0
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		for _, fault := range check(lines.Bytes()) {
			fmt.Println(fault)
			faults++
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if faults > 0 {
		os.Exit(1)
	}
}

func check(line []byte) []string {
	var head struct {
		APIVersion string     `json:"apiVersion"`
		Kind       string     `json:"kind"`
		Promql     string     `json:"promql"`
		Rules      string     `json:"rules"`
		Alert      *alertCase `json:"alert"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return []string{err.Error()}
	}
	if head.Promql != "" {
		return parse(head.Promql)
	}
	if head.Rules != "" {
		return parseRules(head.Rules)
	}
	if head.Alert != nil {
		return head.Alert.check()
	}
	name := head.APIVersion + " " + head.Kind
	typed, known := types[name]
	if !known {
		return []string{name + ": its type is not known here"}
	}
	strict, err := kjson.UnmarshalStrict(line, typed())
	if err != nil {
		strict = append(strict, err)
	}
	faults := []string{}
	for _, fault := range strict {
		faults = append(faults, name+": "+fault.Error())
	}
	return faults
}

func parseRules(file string) []string {
	faults := []string{}
	_, errs := rulefmt.Parse([]byte(file), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		faults = append(faults, err.Error())
	}
	return faults
}

func parse(expression string) []string {
	if _, err := parser.NewParser(parser.Options{}).ParseExpr(expression); err != nil {
		return []string{expression + ": " + err.Error()}
	}
	return nil
}
