package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func named(names ...string) []*Tool {
	var out []*Tool
	for _, n := range names {
		out = append(out, &Tool{Name: n, Run: func(context.Context, Call) (Result, error) { return Text(n), nil }})
	}
	return out
}

func names(tools []*Tool) []string {
	out := []string{}
	for _, t := range tools {
		out = append(out, t.Name)
	}
	return out
}

func TestBothNamesResolve(t *testing.T) { // AG-60
	set, err := NewSet(named("fs.read", "fs.list", "mcp.my_server.get-it", "skill")...)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"fs.read": "fs.read", "fs_read": "fs.read", "skill": "skill",
		"mcp_my_server_get-it": "mcp.my_server.get-it", "mcp.my_server.get-it": "mcp.my_server.get-it",
		"fs": "", "read": "", "": "", "FS.read": "",
	} {
		got, ok := set.Find(name)
		if ok != (want != "") || ok && got.Name != want {
			t.Errorf("%q: got %v, want %q", name, got, want)
		}
	}
	for _, tool := range set.Tools() {
		if strings.Contains(tool.Wire(), ".") {
			t.Errorf("a model sees %q", tool.Wire())
		}
	}
}

func TestClashesAreRefused(t *testing.T) { // AG-60
	for _, row := range []struct {
		name       string
		have, more []string
		want       string
	}{
		{"the same name", []string{"a.b"}, []string{"c", "a.b"}, "tool a.b: another tool is already called a.b"},
		{"the same towards the model", []string{"a.b"}, []string{"c", "a_b"}, "tool a_b: another tool is already called a.b"},
		{"among the new ones", nil, []string{"a_b", "a.b"}, "tool a.b: another tool is already called a_b"},
		{"a name that is none", nil, []string{"c", "a..b"}, `tool "a..b": expected letters, digits, _ and -, in segments joined by dots`},
		{"no name", nil, []string{""}, `tool "": expected letters, digits, _ and -, in segments joined by dots`},
		{"other characters", nil, []string{"天气"}, `tool "天气": expected letters, digits, _ and -, in segments joined by dots`},
		{"a name that is too long", nil, []string{strings.Repeat("a", 65)}, "tool aaaaaaaaaaaaaaaa…: expected a name of at most 64 bytes, got 65"},
	} {
		t.Run(row.name, func(t *testing.T) {
			set, err := NewSet(named(row.have...)...)
			if err != nil {
				t.Fatal(err)
			}
			if err := set.Add(named(row.more...)...); err == nil || err.Error() != row.want {
				t.Errorf("got %v, want %s", err, row.want)
			}
			if got := names(set.Tools()); !slices.Equal(got, row.have) && len(got)+len(row.have) > 0 {
				t.Errorf("a refused batch left %v", got)
			}
		})
	}
}

func TestWhatCannotRunIsRefused(t *testing.T) { // AG-60
	run := func(context.Context, Call) (Result, error) { return Result{}, nil }
	for want, tool := range map[string]*Tool{
		"tool a: expected a function that runs it":                       {Name: "a"},
		`tool a: expected the approval never or always, got "sometimes"`: {Name: "a", Run: run, Approval: "sometimes"},
		"tool a: the schema of its arguments: invalid JSON: unexpect":    {Name: "a", Run: run, Schema: json.RawMessage(`{`)},
		"tool a: the schema of its arguments: it refers to \"http://":    {Name: "a", Run: run, Schema: json.RawMessage(`{"$ref":"http://example.com/s"}`)},
	} {
		if _, err := NewSet(tool); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestSetsShareNothing(t *testing.T) { // AG-60
	a, err := NewSet(named("x", "y")...)
	if err != nil {
		t.Fatal(err)
	}
	var b Set
	if err := b.Add(named("x")...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"x", "y"}, names(a.Tools())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"x"}, names(b.Tools())); diff != "" {
		t.Error(diff)
	}
}

type changing struct{ tools []*Tool }

func (c *changing) Tools() []*Tool { return c.tools }

func TestASourcesToolsComeAndGo(t *testing.T) { // AG-60, AG-65
	set, err := NewSet(named("a", "s.own")...)
	if err != nil {
		t.Fatal(err)
	}
	one, two := &changing{}, &changing{tools: named("s.own", "two.x")}
	set.Attach(one)
	set.Attach(two)
	for _, step := range []struct{ give, want []string }{
		{nil, []string{"a", "s.own", "two.x"}},
		{[]string{"s.x", "s_own", "two.x", "bad..name"}, []string{"a", "s.own", "s.x", "two.x"}},
		{[]string{"s.y"}, []string{"a", "s.own", "s.y", "two.x"}},
	} {
		one.tools = named(step.give...)
		if diff := cmp.Diff(step.want, names(set.Tools())); diff != "" {
			t.Error(diff)
		}
	}
	if err := set.Add(named("s_y")...); err == nil {
		t.Error("a clash with a source was not refused")
	}
}

func TestASubsetHasWhatMatches(t *testing.T) { // AG-31, AG-60
	set, err := NewSet(named("fs.read", "fs.list", "fs", "fsx.read", "skill")...)
	if err != nil {
		t.Fatal(err)
	}
	later := set.Subset("late.*")
	for _, row := range []struct{ patterns, want []string }{
		{nil, []string{}},
		{[]string{"*"}, []string{"fs", "fs.list", "fs.read", "fsx.read", "skill"}},
		{[]string{"fs.*"}, []string{"fs.list", "fs.read"}},
		{[]string{"fs*"}, []string{}},
		{[]string{"fs_read", "skill", "none"}, []string{"fs.read", "skill"}},
	} {
		if diff := cmp.Diff(row.want, names(set.Subset(row.patterns...).Tools())); diff != "" {
			t.Errorf("%q: %s", row.patterns, diff)
		}
	}
	// DT-06: a name with dots is that of one tool.
	if got := names((&Set{sources: []Source{&changing{tools: named("mcp.x.y.z")}}}).Subset("mcp.x.y_z").Tools()); len(got) > 0 {
		t.Errorf("mcp.x.y_z names %q", got)
	}
	if err := set.Add(named("late.x")...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"late.x"}, names(later.Tools())); diff != "" {
		t.Error(diff)
	}
}

func TestCloseNames(t *testing.T) { // AG-26
	tools := named("fs.read", "fs.list", "tape.search", "tape.read", "weather", "mcp.srv.get_weather", "a1", "a2", "a3", "a4")
	for _, row := range []struct {
		name string
		want []string
	}{
		{"fs_raed", []string{"fs_read"}},
		{"fs-read", []string{"fs_read"}},
		{"fs.lst", []string{"fs_list"}},
		{"Weather", []string{"weather"}},
		{"read", []string{"fs_read", "tape_read"}},
		{"get_weather", []string{"mcp_srv_get_weather"}},
		{"ab", []string{"a1", "a2", "a3"}},
		{"submarine", nil},
		{"", nil},
		{strings.Repeat("x", 1<<20), nil},
	} {
		if diff := cmp.Diff(row.want, Close(row.name, tools)); diff != "" {
			t.Errorf("%.20q: %s", row.name, diff)
		}
	}
}

func TestASetMayBeUsedByMany(t *testing.T) {
	set, err := NewSet()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for i := range 8 {
		go func() {
			err := set.Add(named(fmt.Sprintf("t%d", i))...)
			set.Tools()
			set.Find("t1")
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if len(set.Tools()) != 8 {
		t.Errorf("got %v", names(set.Tools()))
	}
}
