package channel_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel"
)

func TestTheTableOfSettingsIsWhole(t *testing.T) {
	table := channel.SettingsTable()
	seen := map[string]bool{}
	for _, s := range table {
		if seen[s.Key] || s.Key == "" {
			t.Errorf("%q is there twice", s.Key)
		}
		seen[s.Key] = true
		if s.Help == "" || strings.HasSuffix(s.Help, ".") || strings.Contains(s.Help, "\n") {
			t.Errorf("%s: the help is not one line without a full stop: %q", s.Key, s.Help)
		}
		if s.Levels == 0 {
			t.Errorf("%s has no level", s.Key)
		}
	}
	// A place has a field for each.
	if n := reflect.TypeFor[channel.Place]().NumField(); n != len(table) {
		t.Errorf("a place has %d fields, the table %d settings", n, len(table))
	}
	table[0].Key = "changed"
	if channel.SettingsTable()[0].Key == "changed" {
		t.Error("the table can be changed")
	}
}

func TestListsSayWhatTheyExpect(t *testing.T) {
	for name, test := range map[string]struct {
		key   string
		place channel.Place
		want  string
	}{
		"a list of kinds":          {"implicit_mentions", channel.Place{Implicit: []channel.MentionKind{"native", "magic"}}, `"magic" is invalid; expected one of reply_to_bot`},
		"everybody gives commands": {"commands.users", channel.Place{Users: []string{"*"}}, "commands.mode: senders"},
		"inherit with others":      {"groups.allow_from", channel.Place{GroupAllowFrom: []string{"inherit", "1"}}, "inherit must be the only entry"},
		"inherit for dm":           {"dm.allow_from", channel.Place{DMAllowFrom: []string{"inherit"}}, "inherit works only in groups.allow_from"},
		"an empty entry":           {"groups.only", channel.Place{Only: []string{""}}, "is empty"},
		"blanks":                   {"dm.allow_from", channel.Place{DMAllowFrom: []string{"1", " 2"}}, `the entry " 2" is empty, or has spaces around it`},
		"inherit":                  {"groups.allow_from", channel.Place{GroupAllowFrom: []string{"inherit"}}, ""},
		"a text":                   {"agent", channel.Place{Agent: " "}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			table := channel.SettingsTable()
			s := table[slices.IndexFunc(table, func(s channel.Setting) bool { return s.Key == test.key })]
			err := s.Check(&test.place)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
