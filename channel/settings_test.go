package channel_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		if s.Levels == 0 || s.Kind() == "" {
			t.Errorf("%s has no level or no kind", s.Key)
		}
		if s.Default == "" {
			continue
		}
		for value := range strings.SplitSeq(s.Default, ", ") {
			if err := s.Set(new(channel.Place), value); err != nil {
				t.Errorf("%s: its default: %v", s.Key, err)
			}
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

func TestSettingsSayWhatTheyExpect(t *testing.T) {
	find := func(key string) channel.Setting {
		table := channel.SettingsTable()
		return table[slices.IndexFunc(table, func(s channel.Setting) bool { return s.Key == key })]
	}
	for name, test := range map[string]struct {
		key, value string
		list       []string
		want       string
	}{
		"a value that there is not": {key: "dm.policy", value: "everyone", want: `"everyone" is invalid; expected one of disabled, open, allowlist, pairing`},
		"pairing in groups":         {key: "groups.policy", value: "pairing", want: "pairing works only in direct conversations"},
		"no truth":                  {key: "match_mutable", value: "maybe", want: `"maybe" is invalid; expected true or false`},
		"no duration":               {key: "debounce", value: "2", want: `"2" is invalid; expected a duration, such as 2s or 500ms`},
		"a duration below zero":     {key: "debounce", value: "-2s", want: "expected a duration"},
		"no time zone":              {key: "timezone", value: "Berlin", want: `"Berlin" is not a time zone; expected a name such as Europe/Berlin`}, // DC-17
		"a list of kinds":           {key: "implicit_mentions", list: []string{"native", "magic"}, want: `"magic" is invalid; expected one of reply_to_bot`},
		"a list for a text":         {key: "agent", list: []string{"a"}, want: "expected text, got a list"},
		"a list for one of some":    {key: "allow_bots", list: []string{"all"}, want: "expected none, mentions, all, got a list"},
		"everybody gives commands":  {key: "commands.users", list: []string{"*"}, want: "commands.mode: senders"},
		"inherit with others":       {key: "groups.allow_from", list: []string{"inherit", "1"}, want: "inherit must be the only entry"},
		"inherit for dm":            {key: "dm.allow_from", list: []string{"inherit"}, want: "inherit works only in groups.allow_from"},
		"an empty entry":            {key: "groups.only", list: []string{""}, want: "is empty"},
		"blanks":                    {key: "dm.allow_from", list: []string{"1", " 2"}, want: `the entry " 2" is empty, or has spaces around it`},
	} {
		t.Run(name, func(t *testing.T) {
			var p channel.Place
			err := error(nil)
			if test.list != nil {
				err = find(test.key).SetList(&p, test.list)
			} else {
				err = find(test.key).Set(&p, test.value)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if diff := cmp.Diff(channel.Place{}, p); diff != "" {
				t.Errorf("it is set: %s", diff)
			}
		})
	}
	var p channel.Place
	if err := find("dm.allow_from").SetList(&p, nil); err != nil || p.DMAllowFrom == nil {
		t.Errorf("an empty list is not absent: %v, %v", p.DMAllowFrom, err)
	}
	if err := find("groups.allow_from").Set(&p, "inherit"); err != nil || !cmp.Equal(p.GroupAllowFrom, []string{"inherit"}) {
		t.Errorf("one entry without a list: %v, %v", p.GroupAllowFrom, err)
	}
}

func TestASettingHasItsNameAtEachLevel(t *testing.T) {
	want := map[string][5]string{ // of a channel, an account, a direct conversation, a group and a thread
		"dm.policy":              {"dm.policy", "dm.policy"},
		"groups.policy":          {"groups.policy", "groups.policy", "", "policy", "policy"},
		"groups.require_mention": {"groups.require_mention", "groups.require_mention", "", "require_mention", "require_mention"},
		"groups.enabled":         {"", "", "", "enabled", "enabled"},
		"allow_bots":             {"allow_bots", "allow_bots", "allow_bots", "allow_bots", "allow_bots"},
		"log.previews":           {"log.previews", "log.previews"},
	}
	levels := []channel.Level{channel.OfChannel, channel.OfAccount, channel.OfDirect, channel.OfGroup, channel.OfThread}
	for _, s := range channel.SettingsTable() {
		if names, ok := want[s.Key]; ok {
			for i, l := range levels {
				if key, ok := s.At(l); ok != (names[i] != "") || ok && key != names[i] {
					t.Errorf("%s at level %d: %q, %t; want %q", s.Key, i, key, ok, names[i])
				}
			}
		}
	}
}
