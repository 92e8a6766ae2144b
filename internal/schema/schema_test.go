package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func decode(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// BO-05
func TestMisfitsAreFoundWithTheirPlace(t *testing.T) {
	s, err := Compile([]byte(`{"type":"object","required":["a"],"additionalProperties":false,
		"properties":{"a":{"type":"array","items":{"type":"string","pattern":"^x"}},"n":{"type":"integer"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, value string
		want        []Misfit
	}{
		{"fits", `{"a":["x","xy"],"n":12345678901234567890}`, nil},
		{"missing", `{}`, []Misfit{{At: []string{"a"}, Message: "this property is required"}}},
		{"several", `{"a":[1,"y"],"b":1}`, []Misfit{
			{At: []string{"a", "0"}, Message: "expected a string, got a number"},
			{At: []string{"a", "1"}, Message: "expected text that matches ^x"},
			{At: []string{"b"}, Message: Unknown},
		}},
		{"all of it", `[]`, []Misfit{{Message: "expected an object, got an array"}}},
		{"a whole number, however it is written", `{"a":[],"n":1.50e1}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, s.Check(decode(t, c.value), 16)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.want, s.CheckText([]byte(c.value), 16)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if found := s.CheckProperty("n", decode(t, `"x"`), 16); len(found) != 1 {
		t.Error(found)
	}
	if found := s.CheckProperty("z", decode(t, `"x"`), 16); found != nil {
		t.Error(found)
	}
}

// BO-05
func TestASchemaReadsNothingButItself(t *testing.T) {
	for _, ref := range []string{
		"file:///etc/passwd", "http://127.0.0.1/x", "https://example.com/x", "other.json", "/etc/passwd", "../x", "//host/x", "ftp://h/x",
		"schema:///other.json", "urn:x:y",
	} {
		for _, where := range []string{
			`{"$ref":%q}`, `{"properties":{"a":{"$ref":%q}}}`, `{"$schema":%q}`, `{"$id":"http://h/a","$ref":%q}`,
			`{"$dynamicRef":%q}`, `{"allOf":[{"$schema":%q,"$id":"x"}]}`,
		} {
			_, err := Compile(fmt.Appendf(nil, where, ref))
			if e, ok := errors.AsType[*Error](err); !ok {
				t.Errorf(where+": got %v", ref, err)
			} else if strings.Contains(e.Message, "root:") || strings.Contains(e.Message, "no such file") {
				t.Errorf(where+": something was read: %v", ref, e)
			}
		}
	}
	for _, inside := range []string{
		`{"$ref":"http://json-schema.org/draft-07/schema#"}`, // the library has it in itself
		`{"$defs":{"x":true},"$ref":"#/$defs/x"}`,
		`{"$id":"http://h/a","$defs":{"x":{"$id":"b"}},"$ref":"b"}`,
	} {
		if _, err := Compile([]byte(inside)); err != nil {
			t.Errorf("%s: %v", inside, err)
		}
	}
}

// doubled is a schema of n parts, each of which leads to the next twice.
func doubled(n int, part, last string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range n {
		next := fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1)
		fmt.Fprintf(&b, `"a%d":%s,`, i, strings.ReplaceAll(part, "NEXT", next))
	}
	fmt.Fprintf(&b, `"a%d":%s}}`, n, last)
	return b.String()
}

func nested(n int, inner string) string {
	return strings.Repeat("[", n) + inner + strings.Repeat("]", n)
}

// BO-05
func TestNoSchemaAndNoValueTakesLong(t *testing.T) {
	for _, c := range []struct {
		name, schema, value string
		refused             bool // it cannot be checked
	}{
		{"all of, twice and twice", doubled(60, `{"allOf":[NEXT,NEXT]}`, `true`), `1`, true},
		{"any of, twice and twice", doubled(60, `{"anyOf":[NEXT,NEXT]}`, `false`), `1`, true},
		{"not, twice and twice", doubled(60, `{"not":{"allOf":[NEXT,NEXT]}}`, `true`), `1`, true},
		{"if, twice and twice", doubled(60, `{"if":NEXT,"then":NEXT,"else":NEXT}`, `true`), `1`, true},
		{"items and contains", `{"$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"},"contains":{"$ref":"#/$defs/t"}}},"not":{"$ref":"#/$defs/t"}}`, nested(200, "0"), true},
		{
			"patterns that overlap", `{"$defs":{"t":{"type":"object","patternProperties":{"a":{"$ref":"#/$defs/t"},"a|b":{"$ref":"#/$defs/t"}}}},"not":{"$ref":"#/$defs/t"}}`,
			strings.Repeat(`{"a":`, 200) + "0" + strings.Repeat("}", 200), true,
		},
		{"a dynamic reference", `{"$dynamicAnchor":"t","anyOf":[{"items":{"$dynamicRef":"#t"}},{"items":{"$dynamicRef":"#t"}}],"not":{"type":"number"}}`, nested(200, "0"), true},
		{"an old recursive reference", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"anyOf":[{"items":{"$recursiveRef":"#"}},{"items":{"$recursiveRef":"#"}}],"not":{"type":"number"}}`, nested(200, "0"), true},
		{"an old draft", `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"t":{"type":"array","items":{"$ref":"#/definitions/t"},"contains":{"$ref":"#/definitions/t"}}},"$ref":"#/definitions/t"}`, nested(200, "0"), true},
		{"a circle", `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`, `1`, false},
		{"a pattern that others choke on", `{"pattern":"^(a+)+$"}`, `"` + strings.Repeat("a", 10_000) + `!"`, false},
		{"a large pattern on a large text", `{"pattern":"(a?b?c?){300}z"}`, `"` + strings.Repeat("abc", 300_000) + `"`, true},
		{"a large number", `{"type":"integer"}`, `1e999999`, true},
		{"a small number", `{"multipleOf":0.1}`, `1e-999999`, true},
		{"a long number", `{"type":"integer"}`, strings.Repeat("9", 5000), true},
		{"many values", `{"items":{"type":"string"}}`, "[" + strings.Repeat("1,", 150_000) + "1]", true},
		{"many misfits", `{"items":{"type":"string"}}`, "[" + strings.Repeat("1,", 90_000) + "1]", false},
		{
			"many deep misfits", `{"$ref":"#/$defs/t","$defs":{"t":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/t"}},{"type":"string"}]}}}`,
			nested(400, strings.Repeat("1,", 2000)+"1"), false,
		},
		{"too many deep values", `{}`, nested(400, strings.Repeat("1,", 50_000)+"1"), true},
		{
			"unique items inside of unique items", `{"$defs":{"t":{"uniqueItems":true,"items":{"$ref":"#/$defs/t"}}},"$ref":"#/$defs/t"}`,
			nested(300, strings.Repeat("[[1],[2]],", 500)+"1"), false,
		},
		{"properties that are not known", `{"additionalProperties":false}`, func() string {
			var b strings.Builder
			for i := range 50_000 {
				fmt.Fprintf(&b, `"%s%d":1,`, strings.Repeat("k", 100), i)
			}
			return "{" + strings.TrimSuffix(b.String(), ",") + "}"
		}(), false},
		{"a long key", `{"additionalProperties":false}`, `{"` + strings.Repeat("k", 1<<20) + `":1}`, false},
		{"a long enum", `{"enum":["` + strings.Repeat("é", 1<<16) + `"]}`, `1`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Compile([]byte(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			value := decode(t, c.value)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found := s.Check(value, 16)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 1<<30 {
				t.Errorf("it took %d MiB", used>>20)
			}
			if c.refused != (len(found) == 1 && found[0].Unchecked && strings.HasPrefix(found[0].Message, "it cannot be checked")) {
				t.Errorf("%.300v", found)
			}
			if len(found) > 16 {
				t.Errorf("%d misfits", len(found))
			}
			for _, m := range found {
				if n := len(m.Message) + len(Pointer(m.At)); n > 3<<10 {
					t.Errorf("a misfit of %d bytes", n)
				}
			}
			// The schema is as good as new.
			if !c.refused && !cmp.Equal(found, s.Check(value, 16)) {
				t.Error("the second time it is another answer")
			}
			t.Logf("%d MiB", (after.TotalAlloc-before.TotalAlloc)>>20)
		})
	}
}

func TestATextOfTooManyValuesIsNotEvenDecoded(t *testing.T) {
	s, err := Compile([]byte(`{"type":"array"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		refused    bool
	}{
		{"many numbers", "[" + strings.Repeat("1,", 5_000_000) + "1]", true},
		{"many lists", "[" + strings.Repeat("[],", 500_000) + "1]", true},
		{"commas in a text", `["` + strings.Repeat(`,\",`, 200_000) + `"]`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found := s.CheckText([]byte(c.text), 16)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
				t.Errorf("it took %d MiB", used>>20)
			}
			if c.refused != (len(found) == 1 && found[0].Unchecked && strings.HasPrefix(found[0].Message, "it cannot be checked")) {
				t.Error(found)
			}
		})
	}
}

func TestASchemaThatIsTooMuchIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"a large number":  `{"multipleOf":1e999999}`,
		"a large pattern": `{"pattern":"((a{100}){100}){100}"}`,
		"no JSON":         `{`,
		"many patterns":   `{"allOf":[` + strings.Repeat(`{"pattern":"a{1000}"},`, 10_000) + `true]}`,
		"many pattern properties": `{"patternProperties":{` + func() string {
			var b strings.Builder
			for i := range 5000 {
				fmt.Fprintf(&b, `"a%d{1000}":true,`, i)
			}
			return b.String()
		}() + `"b":true}}`,
		"many values": `{"enum":[` + strings.Repeat("1,", 200_000) + `1]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Compile([]byte(text))
		runtime.ReadMemStats(&after)
		if _, ok := errors.AsType[*Error](err); !ok || len(err.Error()) > 1<<10 {
			t.Errorf("%s: got %v", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
			t.Errorf("%s: it took %d MiB", name, used>>20)
		}
		t.Logf("%s: %v", name, err)
	}
}

func TestRegularExpressionsOfOtherEnginesAreLeftOut(t *testing.T) {
	const text = `{"properties":{"a":{"pattern":"^(?!x)"},"b":{"pattern":"^(?<=y)b"},"c":{"pattern":"^c"}},"patternProperties":{"(?=z)":{"type":"integer"}}}`
	s, err := CompileForeign([]byte(text))
	if err != nil || len(s.Left) != 3 {
		t.Fatal(s, err)
	}
	if found := s.CheckText([]byte(`{"a":"x","b":"b","c":"d","z":"z"}`), 9); len(found) != 1 || found[0].At[0] != "c" {
		t.Errorf("%+v", found)
	}
	const old = `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"patternProperties":{"(?=z)":{},"^x":{"type":"integer"}}}}}`
	if s, err = CompileForeign([]byte(old)); err != nil || len(s.Left) != 1 {
		t.Fatal(s, err)
	}
	if found := s.CheckText([]byte(`{"a":{"z":"z","x":"x"}}`), 9); len(found) != 1 || found[0].At[1] != "x" {
		t.Errorf("%+v", found)
	}
	if _, err := CompileForeign([]byte(`{"pattern":"(?=x)","type":"objekt"}`)); err == nil {
		t.Error("an unknown type is accepted")
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"type":"object","required":["a"]}`), []byte(`{"b":1}`))
	f.Add([]byte(`{"$ref":"#"}`), []byte(`1`))
	f.Add([]byte(`{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}],"pattern":"a*"}`), []byte(`[[[["a"]]]]`))
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`), []byte(`1e2`))
	f.Fuzz(func(t *testing.T, text, value []byte) {
		s, err := Compile(text)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("%T", err)
			}
			return
		}
		d := json.NewDecoder(bytes.NewReader(value))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return
		}
		if n := len(s.Check(v, 4)); n > 4 {
			t.Fatal(n)
		}
	})
}
