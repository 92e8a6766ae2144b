package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lingserve/lingserve/internal/config"
)

// helpOf runs a command line that prints help.
func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var out, problems strings.Builder
	if status := command(args, nil, &out, &problems); status != exitOK || problems.Len() > 0 {
		t.Fatalf("lingserve %s: status %d: %s", strings.Join(args, " "), status, problems.String())
	}
	return out.String()
}

// Every help text is short, and has every flag with --all. --help and -h print the same as "lingserve help".
func TestHelpIsShortAndWithAllHasEveryFlag(t *testing.T) {
	settings := map[string]bool{}
	for _, s := range config.Settings() {
		settings[s.Flag()] = true
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		words := strings.Fields(cmd.CommandPath())[1:]
		short := helpOf(t, append([]string{"help"}, words...)...)
		all := helpOf(t, append([]string{"help", "--all"}, words...)...)
		if strings.Count(short, "\n") > 36 {
			t.Errorf("the help of %s is too long:\n%s", cmd.CommandPath(), short)
		}
		for _, flag := range []string{"--help", "-h"} {
			if helpOf(t, append(words, flag)...) != short {
				t.Errorf("lingserve %s %s prints another text", strings.Join(words, " "), flag)
			}
		}
		if len(words) > 0 && (helpOf(t, append(words, "--all")...) != all || cmd.Short == "" || !strings.Contains(short, "Usage:\n  "+cmd.CommandPath())) {
			t.Errorf("the help of %s is not complete:\n%s", cmd.CommandPath(), short)
		}
		cmd.LocalFlags()
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if len(words) > 0 && f.Name != "all" && f.Name != "help" && !f.Hidden && !strings.Contains(all, "--"+f.Name) {
				t.Errorf("the help of %s does not have --%s", cmd.CommandPath(), f.Name)
			}
			delete(settings, f.Name)
		})
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(newRoot(streams{}))
	if len(settings) > 0 {
		t.Errorf("no command has the settings %v", settings)
	}
	for path := range manuals {
		if path == "help" { // which cobra adds when a command line is executed
			continue
		}
		if cmd, _, err := newRoot(streams{}).Find(strings.Fields(path)); err != nil || cmd.CommandPath() != "lingserve "+path {
			t.Errorf("help.txt has the unknown command %s", path)
		}
	}
}

// A wrong command line is one line on stderr, with the nearest name and the help that explains more.
func TestAWrongCommandLineIsOneLine(t *testing.T) {
	for line, want := range map[string]string{
		"serv":                           `lingserve: unknown command "serv"; did you mean serve? See lingserve help`,
		"nothing":                        `lingserve: unknown command "nothing"; see lingserve help`,
		"help rnu":                       `lingserve help: unknown command "rnu"; did you mean run? See lingserve help help`,
		"help tape coppy":                `lingserve help: unknown action "coppy"; did you mean copy? See lingserve help help`,
		"help run --al":                  `lingserve help: unknown flag --al; did you mean --all? See lingserve help help`,
		"run x --fromat=json":            `lingserve run: unknown flag --fromat; did you mean --format? See lingserve help run`,
		"run x -x=1":                     `lingserve run: unknown flag -x; see lingserve help run`,
		"run":                            `lingserve run: WORKFLOW is missing; see lingserve help run`,
		"run x y":                        `lingserve run: unexpected argument "y"; expected only a workflow name; give the input with --input; see lingserve help run`,
		"run x -o yaml":                  `lingserve run: --format: unknown format "yaml"; expected text, jsonl, sse or json; see lingserve help run`,
		"run x --option heat":            `lingserve run: --option: "heat" is invalid; expected NAME=VALUE; see lingserve help run`,
		"run x --option temperature=hot": `lingserve run: --option: temperature: expected a number, got a string; see lingserve help run`,
		"run x --param tone":             `lingserve run: --param: "tone" is invalid; expected NAME=TEXT; see lingserve help run`,
		"run x --input {":                `lingserve run: --input: invalid JSON: unexpected end of JSON input; see lingserve help run`,
		"run x -i a=b -i c":              `lingserve run: --input: expected one whole input, or NAME=TEXT for each property; do not mix them; see lingserve help run`,
		"serve --adr :80":                `lingserve serve: unknown flag --adr; did you mean --addr? See lingserve help serve`,
		"serve -addr :80":                `lingserve serve: unknown flag -addr; did you mean --addr? See lingserve help serve`,
		"serve now":                      `lingserve serve: unexpected argument "now"; see lingserve help serve`,
		"run x --server":                 `lingserve run: flag needs an argument: --server; see lingserve help run`,
		"health --timeout soon":          `lingserve health: --timeout: time: invalid duration "soon"; see lingserve help health`,
		"tape":                           `lingserve tape: the action is missing; expected one of list, show, search, export, import, copy, delete; see lingserve help tape`,
		"tape show":                      `lingserve tape show: SESSION is missing; see lingserve help tape show`,
		"tape search s":                  `lingserve tape search: WORDS is missing; see lingserve help tape search`,
		"tape list --limit many":         `lingserve tape list: --limit: strconv.ParseInt: parsing "many": invalid syntax; see lingserve help tape list`,
		"tape list --limit -1":           `lingserve tape list: --limit is -1; expected a number above 0; see lingserve help tape list`,
		"tape delete s":                  `lingserve tape delete: a deleted session cannot be restored; confirm with --yes; see lingserve help tape delete`,
		"parse --strict=perhaps":         `lingserve parse: --strict: strconv.ParseBool: parsing "perhaps": invalid syntax; see lingserve help parse`,
		"db chek":                        `lingserve db: unknown action "chek"; did you mean check? See lingserve help db`,
		"channels par":                   `lingserve channels: unknown action "par"; did you mean pair? See lingserve help channels`,
		"channels pair remove x":         `lingserve channels pair remove: SENDER is missing; see lingserve help channels pair remove`,
		"keys new --nam x":               `lingserve keys new: unknown flag --nam; did you mean --name? See lingserve help keys new`,
		"keys list --name x":             `lingserve keys list: unknown flag --name; see lingserve help keys list`,
		"models check --qick":            `lingserve models check: unknown flag --qick; did you mean --quick? See lingserve help models check`,
		"models check good":              `lingserve models check: "good" is no model; expected PROVIDER:NAME, such as openai:gpt-4o-mini; see lingserve help models check`,
		"models --timeout 0s":            `lingserve models: --timeout is 0s; expected a duration above 0, such as 30s; see lingserve help models`,
		"chat --sesion a --agnet b x":    `lingserve chat: unknown flag --sesion; did you mean --session? See lingserve help chat`,
	} {
		var out, problems strings.Builder
		if status := command(strings.Fields(line), nil, &out, &problems); status != exitUsage || out.Len() > 0 || problems.String() != want+"\n" {
			t.Errorf("lingserve %s: status %d, %q\ngot  %s\nwant %s", line, status, out.String(), problems.String(), want)
		}
	}
}
