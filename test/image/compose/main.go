// compose loads a Compose file with the library that Docker Compose is made of, all profiles on: held to the specification's schema,
// variables filled in, references followed. It prints the project as JSON, or one line that says what is wrong, and ends with 1.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if err := load(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func load(files []string) error {
	options, err := cli.NewProjectOptions(files, cli.WithProfiles([]string{"*"}))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(project)
}
