package config

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/lingserve/lingserve/internal/yaml"
)

// Print writes the settings as a configuration file, with the source of each value behind it. Secrets are stars.
func (c *Config) Print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) // each value is quoted, so that none has a tab
	previous := ""
	for _, s := range c.settings {
		if s.optional && c.sources[s.Key].Kind == Default {
			continue
		}
		last := len(s.path) - 1
		for depth, name := range s.path[:last] {
			if section := yaml.Path(s.path[:depth+1]...) + "."; !strings.HasPrefix(previous, section) {
				fmt.Fprintf(out, "%s%s:\n", strings.Repeat("  ", depth), quote(name, true))
			}
		}
		previous = s.Key
		indent := strings.Repeat("  ", last)
		if s.Key == "config" { // which the file cannot set
			indent = "# "
		}
		fmt.Fprintf(out, "%s%s: %s\t# %s\n", indent, s.path[last], s.yaml(), c.sources[s.Key])
	}
	return out.Flush()
}

// bare is text that needs no quotes in YAML. A colon before a space, a leading sign and the like do.
var bare = regexp.MustCompile(`^[A-Za-z0-9./][A-Za-z0-9._/:@+-]*$`)

// yaml returns the value as the file has it.
func (s Setting) yaml() string {
	if !s.isList() {
		return quote(s.text(), s.isText())
	}
	items := []string{}
	switch {
	case !s.Secret:
		items = s.items()
	case s.field.Len() > 0:
		items = []string{stars} // the number of secrets is not shown
	}
	for i, item := range items {
		items[i] = quote(item, true)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// quote leaves plain words plain. Text that YAML would read as something else gets quotes.
func quote(text string, isText bool) string {
	if !isText {
		return text
	}
	_, err := strconv.ParseFloat(text, 64)
	if bare.MatchString(text) && err != nil && !strings.HasSuffix(text, ":") && !slices.Contains([]string{"true", "false", "null"}, strings.ToLower(text)) {
		return text
	}
	return strconv.Quote(text)
}
