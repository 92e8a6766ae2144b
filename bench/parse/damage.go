package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/lingserve/lingserve/jsonuri"
)

// A token is a piece of a document's text: a sign of the structure, a key, a string, a number or a literal, or white space.
type token struct {
	kind byte // one of {}[],: or k, s, n, l, w
	text string
}

// A document is a value as models write it, token by token.
type document struct {
	r      *rand.Rand
	tokens []token
	indent bool
	spaces bool
}

var (
	names = []string{
		"name", "title", "summary", "city", "tags", "items", "price", "count", "is_open", "created at", "author", "id", "url", "code", "notes", "步骤", "größe", "x-rate",
	}
	texts = []string{
		"Paris", "open", "a blue door", "The sky is blue, because of scattering.", "It's fine, don't worry", "他说：“今天天气很好”，然后离开了。", "https://example.com/a?b=1&c=2",
		"first line\nsecond line", `he said "stop" and left`, "12:30", "2024-05-01", "C:\\Users\\ann", "a (small) remark", "step 1: mix, step 2: bake", "", "naïve café", "50 %", "use [x] and {y}",
		"Rayleigh scattering: short waves are scattered more", "v1.2.3", "yes; no", "let x = 1;", "if (a < b) { return \"c\" }",
	}
	literals = []string{"true", "false", "null"}
	numbers  = []string{"0", "1", "42", "-7", "3.14", "1200", "6.02e23", "0.5", "1985", "-0.25"}
)

// newDocument writes an object or, at times, an array.
func newDocument(r *rand.Rand) *document {
	d := &document{r: r, indent: r.IntN(2) == 0, spaces: r.IntN(3) > 0}
	if r.IntN(6) == 0 {
		d.array(0)
	} else {
		d.object(0)
	}
	return d
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func (d *document) add(kind byte, text string) { d.tokens = append(d.tokens, token{kind, text}) }

func (d *document) line(depth int) {
	switch {
	case d.indent:
		d.add('w', "\n"+strings.Repeat("  ", depth))
	case d.spaces && d.tokens[len(d.tokens)-1].kind == ',':
		d.add('w', " ")
	}
}

func (d *document) object(depth int) {
	d.add('{', "{")
	for i, n := range d.r.Perm(len(names))[:1+d.r.IntN(4)] {
		if i > 0 {
			d.add(',', ",")
		}
		d.line(depth + 1)
		d.add('k', quoted(names[n]))
		d.add(':', ":")
		if d.indent || d.spaces {
			d.add('w', " ")
		}
		d.value(depth + 1)
	}
	d.line(depth)
	d.add('}', "}")
}

func (d *document) array(depth int) {
	d.add('[', "[")
	objects, words := d.r.IntN(3) == 0, d.r.IntN(2) == 0
	for i := range 1 + d.r.IntN(4) {
		if i > 0 {
			d.add(',', ",")
		}
		d.line(depth + 1)
		switch {
		case objects && depth < 3:
			d.object(depth + 1)
		case words:
			d.add('s', quoted(pick(d.r, texts)))
		default:
			d.value(depth + 1)
		}
	}
	d.line(depth)
	d.add(']', "]")
}

func (d *document) value(depth int) {
	switch n := d.r.IntN(12); {
	case n < 2 && depth < 4:
		d.object(depth)
	case n < 4 && depth < 4:
		d.array(depth)
	case n < 6:
		d.add('n', pick(d.r, numbers))
	case n < 7:
		d.add('l', pick(d.r, literals))
	default:
		d.add('s', quoted(pick(d.r, texts)))
	}
}

func quoted(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string can be
	return strings.TrimSuffix(b.String(), "\n")
}

func (d *document) String() string {
	var b strings.Builder
	for _, t := range d.tokens {
		b.WriteString(t.text)
	}
	return b.String()
}

// at picks a token of one of the kinds, past the first one; -1 where there is none.
func (d *document) at(kinds string) int {
	var found []int
	for i, t := range d.tokens {
		if i > 0 && strings.IndexByte(kinds, t.kind) >= 0 {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return -1
	}
	return pick(d.r, found)
}

// change has f change one token of the kinds.
func change(kinds string, f func(text string) string) func(*document) bool {
	return func(d *document) bool {
		i := d.at(kinds)
		if i < 0 {
			return false
		}
		was := d.tokens[i].text
		d.tokens[i].text = f(was)
		return d.tokens[i].text != was
	}
}

// all has f change all tokens of the kinds.
func all(kinds string, f func(text string) string) func(*document) bool {
	return func(d *document) (changed bool) {
		for i := range d.tokens {
			if t := &d.tokens[i]; strings.IndexByte(kinds, t.kind) >= 0 {
				was := t.text
				t.text = f(was)
				changed = changed || t.text != was
			}
		}
		return changed
	}
}

func drop(string) string          { return "" }
func twice(text string) string    { return text + text }
func noFirst(text string) string  { return text[1:] }
func noLast(text string) string   { return text[:len(text)-1] }
func oneFirst(text string) string { return `"` + text }
func oneLast(text string) string  { return text + `"` }

func inside(text string) string { return text[1 : len(text)-1] }

func plain(text string) string {
	if text == `""` {
		return text
	}
	for _, c := range inside(text) {
		if (c < 'a' || c > 'z') && c != '_' {
			return text
		}
	}
	return inside(text)
}

func around(left, right string) func(string) string {
	return func(text string) string { return left + inside(text) + right }
}

func single(text string) string {
	return "'" + strings.NewReplacer(`\"`, `"`, "'", `\'`).Replace(inside(text)) + "'"
}

// behind puts a text behind a token of the kinds, before what follows.
func behind(kinds, text string) func(*document) bool {
	return change(kinds, func(was string) string { return was + text })
}

func both(fs ...func(*document) bool) func(*document) bool {
	return func(d *document) bool {
		changed := false
		for _, f := range fs {
			changed = f(d) || changed
		}
		return changed
	}
}

// prose puts text around the document.
func prose(before, after string) func(*document) bool {
	return func(d *document) bool {
		d.tokens[0].text = before + d.tokens[0].text
		d.tokens[len(d.tokens)-1].text += after
		return true
	}
}

// damages are what models do to documents. The original can come back of all but a cut, of which all that was there can.
var damages = []struct {
	name string
	do   func(*document) bool
}{
	{"opening quote of a key missing", change("k", noFirst)},
	{"closing quote of a key missing", change("k", noLast)},
	{"opening quote of a string missing", change("s", noFirst)},
	{"closing quote of a string missing", change("s", noLast)},
	{"quote of a key doubled", func(d *document) bool {
		return change("k", pick(d.r, []func(string) string{oneFirst, oneLast}))(d)
	}},
	{"quote of a string doubled", func(d *document) bool {
		return change("s", pick(d.r, []func(string) string{oneFirst, oneLast}))(d)
	}},
	{"quotes inside not escaped", all("s", func(text string) string { return strings.ReplaceAll(text, `\"`, `"`) })},
	{"comma missing", change(",", drop)},
	{"comma doubled", change(",", twice)},
	{"comma at the end", behindLast},
	{"colon missing", change(":", drop)},
	{"colon doubled", change(":", twice)},
	{"closing bracket missing", change("]", drop)},
	{"closing brace missing", change("}", drop)},
	{"closing bracket doubled", change("]", twice)},
	{"closing brace doubled", change("}", twice)},
	{"wrong closing bracket", func(d *document) bool {
		return change("]}", func(text string) string { return map[string]string{"]": "}", "}": "]"}[text] })(d)
	}},
	{"cut off", nil}, // see cut
	{"fence", prose("```json\n", "\n```")},
	{"prose around", prose("Here is the JSON that you asked for:\n\n", "\n\nLet me know if it helps [or not].")},
	{"thinking before", prose("<think>\nThe user wants {\"a\": 1} or so.\n</think>\n\n", "")},
	{"Python", both(all("ks", single), all("l", func(text string) string {
		return map[string]string{"true": "True", "false": "False", "null": "None"}[text]
	}))},
	{"keys without quotes", all("k", plain)},
	{"strings without quotes", change("s", plain)},
	{"typographic quotes", all("ks", around("“", "”"))},
	{"line breaks in strings", all("s", func(text string) string { return strings.ReplaceAll(text, `\n`, "\n") })},
	{"backslashes not escaped", all("s", func(text string) string { return strings.ReplaceAll(text, `\\U`, `\U`) })},
	{"comments", func(d *document) bool {
		if d.indent {
			return behind("w", "// as asked\n")(d)
		}
		return behind(",:{[", " /* as asked */")(d)
	}},
	{"escaped as a whole", func(d *document) bool {
		text := d.String()
		d.tokens = []token{{'w', inside(quoted(text))}}
		return true
	}},
	{"words between members", func(d *document) bool {
		i := d.at("k")
		if i < 0 || d.tokens[i-1].kind == '{' || i > 1 && d.tokens[i-2].kind == '{' {
			return false
		}
		d.tokens[i].text = "and " + d.tokens[i].text
		return true
	}},
	{"numbers without their zero", all("n", func(text string) string { return strings.Replace(text, "0.", ".", 1) })},
}

// behindLast puts a comma behind the last value of an object or array.
func behindLast(d *document) bool {
	i := d.at("]}")
	for i--; i >= 0 && d.tokens[i].kind == 'w'; i-- {
	}
	if i < 0 || strings.IndexByte("{[", d.tokens[i].kind) >= 0 {
		return false
	}
	d.tokens[i].text += ","
	return true
}

// cut cuts a text off somewhere and gives what was there, as a parser that knows the whole sees it.
func cut(r *rand.Rand, text string) (damaged string, want any) {
	at := 1 + r.IntN(len(text)-1)
	for at < len(text) && (text[at]&0xC0 == 0x80 || text[at-1] == '\\') {
		at++
	}
	damaged = text[:at]
	var doc jsonuri.Document
	p := jsonuri.NewParser(jsonuri.Handler{Delta: func(d jsonuri.Delta) { _ = doc.Apply(d) }}, nil)
	_, _ = p.WriteString(damaged)
	_ = json.Unmarshal(doc.AppendJSON(nil), &want)
	return damaged, want
}

// A sample is a damaged document and what should come back.
type sample struct {
	Text string `json:"text"`
	want any
	cut  bool
}

// samples damages n documents in one way; two ways where second is another.
func samples(seed uint64, n int, way, second func(*document) bool) (list []sample) {
	r := rand.New(rand.NewPCG(seed, 1))
	for tries := 0; len(list) < n && tries < 100*n; tries++ {
		d := newDocument(r)
		text := d.String()
		var want any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			panic(err)
		}
		if way == nil {
			damaged, want := cut(r, text)
			list = append(list, sample{Text: damaged, want: want, cut: true})
			continue
		}
		if !way(d) || second != nil && !second(d) {
			continue
		}
		list = append(list, sample{Text: d.String(), want: want})
	}
	return list
}

// mended is what a text is read as in repair mode, as JSON; "" where that fails.
func mended(text string) string {
	var doc jsonuri.Document
	p := jsonuri.NewParser(jsonuri.Handler{Delta: func(d jsonuri.Delta) {
		if !jsonuri.Reserved(string(d.URI)) {
			_ = doc.Apply(d)
		}
	}}, &jsonuri.Options{Repair: true})
	_, _ = p.WriteString(text)
	if p.Close() != nil {
		return ""
	}
	return string(doc.AppendJSON(nil))
}

// restored says whether a result is the original; of a cut, whether it has all that was there. What began to be written may be there too.
func restored(s sample, result string) bool {
	var got any
	if json.Unmarshal([]byte(result), &got) != nil {
		return false
	}
	if s.cut {
		return has(got, s.want)
	}
	return reflect.DeepEqual(got, s.want)
}

func has(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok || len(got) > len(want)+1 {
			return false
		}
		for k, v := range want {
			if g, ok := got[k]; !ok || !has(g, v) {
				return false
			}
		}
		return true
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) < len(want) || len(got) > len(want)+1 {
			return false
		}
		for i, v := range want {
			if !has(got[i], v) {
				return false
			}
		}
		return true
	case nil:
		return true
	}
	return reflect.DeepEqual(got, want)
}

// damageTable prints how often the original comes back, by kind of damage and parser. show prints so many texts of ours that do not.
func damageTable(n int, seed uint64, peers string, show int) error {
	type row struct {
		name string
		list []sample
	}
	var rows []row
	for i, way := range damages {
		rows = append(rows, row{way.name, samples(seed+uint64(i), n, way.do, nil)})
	}
	var two []sample
	r := rand.New(rand.NewPCG(seed, 2))
	for i := range n {
		one, other := damages[r.IntN(17)].do, damages[r.IntN(17)].do
		two = append(two, samples(seed+uint64(1000+i), 1, one, other)...)
	}
	rows = append(rows, row{"two of the first seventeen at once", two})

	fmt.Println("| damage | lingserve | jsonrepair | ling |")
	fmt.Println("|---|---:|---:|---:|")
	var sums [3]float64
	for _, row := range rows {
		results := [3][]string{}
		for _, s := range row.list {
			results[0] = append(results[0], mended(s.Text))
		}
		if peers != "" {
			for i, name := range []string{"jsonrepair", "ling"} {
				var err error
				if results[i+1], err = repairedBy(peers, name, row.list); err != nil {
					return err
				}
			}
		}
		fmt.Printf("| %s ", row.name)
		for i, list := range results {
			good := 0
			for k, result := range list {
				if restored(row.list[k], result) {
					good++
				} else if i == 0 && show > 0 && len(list)-k < 1<<30 {
					if want, _ := json.Marshal(row.list[k].want); show > shown(row.name) {
						fmt.Fprintf(os.Stderr, "%s\n  %q\n  is %s\nwant %s\n", row.name, row.list[k].Text, result, want)
					}
				}
			}
			if len(list) == 0 {
				fmt.Print("| – ")
				continue
			}
			share := 100 * float64(good) / float64(len(list))
			sums[i] += share
			fmt.Printf("| %.1f ", share)
		}
		fmt.Println("|")
	}
	fmt.Printf("| mean | %.1f | %.1f | %.1f |\n", sums[0]/float64(len(rows)), sums[1]/float64(len(rows)), sums[2]/float64(len(rows)))
	return nil
}

var shownOf = map[string]int{}

func shown(name string) int {
	shownOf[name]++
	return shownOf[name] - 1
}

// repairedBy returns what a peer makes of the texts. It runs in its own process.
func repairedBy(dir, name string, list []sample) ([]string, error) {
	input, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("node", filepath.Join(dir, "repair.mjs"), name)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var results []string
	if err := json.Unmarshal(out, &results); err != nil {
		return nil, err
	}
	if len(results) != len(list) {
		return nil, fmt.Errorf("%s answered %d of %d texts", name, len(results), len(list))
	}
	return results, nil
}
