package tool

import (
	"context"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type base struct {
	ID string `json:"id"`
}

type inner struct {
	X float64 `json:"x"`
	Y *int8   `json:"y,omitempty"`
}

// every has a field of every sort that a schema can be made of.
type every struct {
	base
	Text    string            `json:"text" jsonschema:"what it says"`
	Maybe   string            `json:"maybe,omitempty"`
	Zero    inner             `json:"zero,omitzero"`
	Plain   int               // without a tag
	Small   uint8             `json:"small"`
	Signed  int16             `json:"signed"`
	Big     uint64            `json:"big"`
	Part    float32           `json:"part"`
	Yes     bool              `json:"yes"`
	List    []string          `json:"list"`
	Lists   [][]inner         `json:"lists"`
	Pair    [2]int            `json:"pair"`
	Map     map[string]inner  `json:"map"`
	Deep    map[string][]bool `json:"deep,omitempty"`
	Pointer *inner            `json:"pointer"`
	Any     any               `json:"any"`
	Raw     json.RawMessage   `json:"raw"`
	RawP    *json.RawMessage  `json:"raw_p"`
	Bytes   []byte            `json:"bytes"`
	Number  json.Number       `json:"number"`
	When    time.Time         `json:"when"`
	Wait    time.Duration     `json:"wait"`
	Int     *big.Int          `json:"int,omitempty"`
	Hidden  string            `json:"-"`
	//lint:ignore U1000 that a schema leaves it out is what is tested
	unseen string
}

func TestTheSchemaComesFromTheStruct(t *testing.T) { // AG-61
	tool := Must(New("t", "", func(context.Context, struct {
		base
		City string            `json:"city" jsonschema:"the name of a city"`
		Days int               `json:"days,omitempty"`
		Tags []string          `json:"tags,omitempty"`
		More map[string]string `json:"more,omitzero"`
		Skip string            `json:"-"`
	},
	) (string, error) {
		return "", nil
	}))
	want := `{"type":"object","properties":{"id":{"type":"string"},"city":{"type":"string","description":"the name of a city"},` +
		`"days":{"type":"integer"},"tags":{"type":["null","array"],"items":{"type":"string"}},` +
		`"more":{"type":"object","additionalProperties":{"type":"string"}}},` +
		`"required":["id","city"],"additionalProperties":false}`
	if diff := cmp.Diff(want, string(tool.Schema)); diff != "" {
		t.Error(diff)
	}
}

func TestSchemasAcceptWhatIsWrittenOfTheStruct(t *testing.T) { // AG-61
	tool := Must(New("t", "", func(_ context.Context, e every) (every, error) { return e, nil }))
	text := rapid.String()
	rapid.Check(t, func(t *rapid.T) {
		e := every{
			base: base{text.Draw(t, "id")}, Text: text.Draw(t, "text"), Maybe: text.Draw(t, "maybe"), Plain: rapid.Int().Draw(t, "plain"),
			Small: rapid.Uint8().Draw(t, "small"), Signed: rapid.Int16().Draw(t, "signed"), Big: rapid.Uint64().Draw(t, "big"),
			Part: rapid.Float32Range(-1e9, 1e9).Draw(t, "part"), Yes: rapid.Bool().Draw(t, "yes"),
			List: rapid.OneOf(rapid.Just([]string(nil)), rapid.SliceOf(text)).Draw(t, "list"),
			Pair: [2]int{1, 2}, Map: map[string]inner{}, Number: "0", Bytes: rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"),
			Wait: time.Duration(rapid.Int64().Draw(t, "wait")), When: time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "when"), 0).UTC(),
			Any: rapid.SampledFrom([]any{nil, 1.5, "x", true, []any{"y"}, map[string]any{"z": nil}}).Draw(t, "any"),
		}
		if rapid.Bool().Draw(t, "rest") {
			y := rapid.Int8().Draw(t, "y")
			in := inner{rapid.Float64Range(-1e300, 1e300).Draw(t, "x"), &y}
			raw := json.RawMessage(rapid.SampledFrom([]string{`null`, `1`, `"a"`, `[]`, `{"a":{}}`}).Draw(t, "raw"))
			e.Zero, e.Pointer, e.Lists, e.Map = in, &in, [][]inner{nil, {in}}, map[string]inner{text.Draw(t, "key"): in}
			e.Deep, e.Raw, e.RawP = map[string][]bool{"a": nil, "b": {true}}, raw, &raw
			e.Int = big.NewInt(rapid.Int64().Draw(t, "int"))
		}
		arguments, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range (&Runner{}).Run(context.Background(), []*Tool{tool}, []Call{{Name: "t", Arguments: arguments}}) {
			if r.Err != nil {
				t.Fatalf("%s: %s", arguments, r.Err.Message)
			}
			// What arrived is what was sent.
			again := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(arguments))
			if diff := cmp.Diff(again, string(r.Content)); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func TestSchemasRefuseWhatIsMissingOrMore(t *testing.T) { // AG-61
	type in struct {
		A string `json:"a"`
		B string `json:"b,omitempty"`
		C struct {
			D int `json:"d"`
		} `json:"c,omitzero"`
	}
	tool := Must(New("t", "", func(context.Context, in) (string, error) { return "ok", nil }))
	for arguments, want := range map[string]string{
		`{"a":""}`:                    "",
		`{"a":"","b":""}`:             "",
		`{"a":"","c":{"d":1}}`:        "",
		`{"b":""}`:                    "/a: this property is required",
		`{"a":"","e":1}`:              "/e: unknown property",
		`{"A":""}`:                    "/A: unknown property; /a: this property is required",
		`{"a":"","c":{}}`:             "/c/d: this property is required",
		`{"a":"","c":{"d":1,"~/":0}}`: "/c/~0~1: unknown property",
		`{"a":"","c":{"d":1.5}}`:      "/c/d: expected an integer, got a number",
		`{"a":"","c":{"d":1.0}}`:      "/c/d: expected a value that fits int, got number 1.0",
		`{"a":null}`:                  "/a: expected a string, got null",
		`{"a":["` + strings.Repeat("x", 1000) + `"]}`: "/a: expected a string, got an array",
	} {
		got := one(t, &Runner{}, []*Tool{tool}, call("t", arguments))
		if want == "" {
			if got.Err != nil {
				t.Errorf("%s: %s", arguments, got.Err.Message)
			}
		} else if got.Err == nil || got.Err.Kind != KindArguments || got.Err.Message != "invalid arguments: "+want {
			t.Errorf("%.60s: got %s, want %s", arguments, got.Text(), want)
		}
	}
}

func TestWhatNoSchemaIsMadeOf(t *testing.T) { // AG-61
	type again struct {
		Next *again `json:"next"`
	}
	for want, err := range map[string]error{
		"expected a struct as input, got string":      of[string](),
		"expected a struct as input, got *tool.where": of[*where](),
		"expected a struct as input, got time.Time":   of[time.Time](),
		"cycle detected":               of[again](),
		"type chan int is unsupported": of[struct{ C chan int }](),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func of[In any]() error {
	_, err := New("t", "", func(context.Context, In) (string, error) { return "", nil })
	return err
}

func TestResultsOfFunctions(t *testing.T) {
	result := func(out any) Result {
		tool := Must(New("t", "", func(context.Context, struct{}) (any, error) { return out, nil }))
		return one(t, &Runner{}, []*Tool{tool}, call("t", ""))
	}
	for _, row := range []struct {
		name        string
		out         any
		value, text string
	}{
		{"text", "a <b> & \"c\"", `"a <b> & \"c\""`, `a <b> & "c"`},
		{"a struct", inner{X: 1}, `{"x":1}`, `{"x":1}`},
		{"nothing", nil, `null`, `null`},
		{"JSON", json.RawMessage(`[1, 2]`), `[1,2]`, `[1,2]`},
		{"no result at all", Result{}, `""`, ``},
		{
			"parts",
			Result{Content: json.RawMessage(`"see:"`), Parts: []Part{{Type: "image_url", Image: "data:image/png;base64,AA=="}, {Type: "text", Text: "a cat"}}},
			`[{"type":"text","text":"see:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},{"type":"text","text":"a cat"}]`, "see:\na cat",
		},
		{"an error in the result", Result{Err: &Error{"failed", "no"}}, `{"error":{"kind":"failed","message":"no"}}`, `{"error":{"kind":"failed","message":"no"}}`},
		{
			"what has no JSON", func() {}, `{"error":{"kind":"failed","message":"cannot write the result as JSON: json: unsupported type: func()"}}`,
			`{"error":{"kind":"failed","message":"cannot write the result as JSON: json: unsupported type: func()"}}`,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := result(row.out)
			if string(got.Value()) != row.value || got.Text() != row.text {
				t.Errorf("got %s and %q, want %s and %q", got.Value(), got.Text(), row.value, row.text)
			}
		})
	}
}

func TestRolesHaveNames(t *testing.T) {
	for _, role := range []Role{User, Operator, Admin} {
		text, err := role.MarshalText()
		var back Role
		if err != nil || back.UnmarshalText(text) != nil || back != role || role.String() != string(text) {
			t.Errorf("%d is %q, which is %d", role, text, back)
		}
	}
	if err := new(Role).UnmarshalText([]byte("root")); err == nil || err.Error() != `expected the role user, operator or admin, got "root"` {
		t.Error(err)
	}
	if _, err := Role(7).MarshalText(); err == nil {
		t.Error("there is no role 7")
	}
}
