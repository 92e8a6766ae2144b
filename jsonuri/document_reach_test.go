package jsonuri_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/jsonuri"
)

func TestReachSaysWhatIsThere(t *testing.T) {
	var d jsonuri.Document
	for _, set := range [][2]string{
		{"", `{"a":{"b/c":[1,"x",null,true],"":{}}}`}, {"a/$tools", `{"0":{"id":"c"}}`},
	} {
		if err := d.Set([]byte(set[0]), []byte(set[1])); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, uri string
		want      jsonuri.Reached
	}{
		{"the root", "", jsonuri.Reached{Kind: '{', Length: 1}},
		{"a member", "a", jsonuri.Reached{End: 1, Next: 1, Kind: '{', Length: 2}},
		{"one that is missing", "b/c", jsonuri.Reached{Next: 1, Kind: '{', Length: 1}},
		{"an escaped one", `a/b\/c`, jsonuri.Reached{End: 6, Next: 6, Kind: '[', Length: 4}},
		{"an element", `a/b\/c/1`, jsonuri.Reached{End: 8, Next: 8, Kind: '"'}},
		{"one behind the end", `a/b\/c/12/x`, jsonuri.Reached{End: 6, Next: 9, Kind: '[', Length: 4}},
		{"below a number", `a/b\/c/0/x`, jsonuri.Reached{End: 8, Next: 10, Kind: '1'}},
		{"below null", `a/b\/c/2/x/y`, jsonuri.Reached{End: 8, Next: 10, Kind: 'n'}},
		{"a truth", `a/b\/c/3`, jsonuri.Reached{End: 8, Next: 8, Kind: 't'}},
		{"an empty key", `a/\e/z`, jsonuri.Reached{End: 4, Next: 6, Kind: '{'}},
		{"a reserved one", `a/$tools/0/id`, jsonuri.Reached{End: 13, Next: 13, Kind: '"'}},
		{"below a reserved one", `a/$tools/1/id`, jsonuri.Reached{End: 8, Next: 10, Kind: '{', Length: 1}},
		{"a reserved one that is missing", `a/$other/1`, jsonuri.Reached{Next: 10, Kind: '{'}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := d.Reach([]byte(c.uri))
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
	if _, err := d.Reach([]byte("a//b")); err == nil {
		t.Error("no error for a uri that is none")
	}
}

func TestReachEndsWhereAValueIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d jsonuri.Document
		segments := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "0", "1", "", "$", "a/b"}), 0, 4)
		for range rapid.IntRange(1, 8).Draw(t, "sets") {
			value := rapid.SampledFrom([]string{"{}", "[]", "1", `"x"`, `[[1],{"a":null}]`}).Draw(t, "value")
			_ = d.Set([]byte(jsonuri.Format(segments.Draw(t, "at")...)), []byte(value)) // what it refuses is not there
		}
		uri := []byte(jsonuri.Format(segments.Draw(t, "uri")...))
		r, err := d.Reach(uri)
		if err != nil {
			t.Fatal(err)
		}
		value, ok := d.AppendValue(nil, uri[:r.End])
		if !ok || value[0] != r.Kind {
			t.Errorf("%+v, where there is %s", r, value)
		}
		if _, ok := d.AppendValue(nil, uri); ok != (r.End == len(uri)) {
			t.Errorf("%+v of %q", r, uri)
		}
		if r.Next > r.End {
			if _, ok := d.AppendValue(nil, uri[:r.Next]); ok {
				t.Errorf("%+v of %q, and there is more", r, uri)
			}
		}
	})
}

func TestCutReserved(t *testing.T) {
	for _, c := range []struct {
		uri, root, reserved string
		found               bool
	}{
		{"a/b", "a/b", "", false},
		{"$tools/0", "", "$tools/0", true},
		{"a/b/$tools/0", "a/b", "$tools/0", true},
		{`a/\$tools/$x`, `a/\$tools`, "$x", true},
		{`a\/$b`, `a\/$b`, "", false},
	} {
		root, reserved, found := jsonuri.CutReserved(c.uri)
		if root != c.root || reserved != c.reserved || found != c.found {
			t.Errorf("%s: %q %q %v", c.uri, root, reserved, found)
		}
	}
}
