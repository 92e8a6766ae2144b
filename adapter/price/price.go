// Package price knows what well-known models cost. Its table is a file with a date: providers change their prices, and what one customer pays
// may be another price, so all costs are estimates. Settings can have other prices.
package price

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/lingserve/lingserve/adapter"
)

//go:embed prices.json
var embedded []byte

// Row is the price of the models that a name means, as it is written.
type Row struct {
	Input      float64  `json:"input"`
	Cached     *float64 `json:"cached"`      // nil is Input
	CacheWrite *float64 `json:"cache_write"` // nil is Input
	Output     float64  `json:"output"`
	Reasoning  *float64 `json:"reasoning"` // nil is Output
	Long       *Row     `json:"long"`      // of requests with more than Over tokens of input
	Over       int      `json:"over"`      // in Long
}

// Table has prices by model. The zero value has none.
type Table struct {
	Date  string                   // as of which the prices are
	exact map[string]adapter.Price // by "provider:name"
	globs []glob                   // the most specific first
}

type glob struct {
	name  string
	price adapter.Price
}

// Default returns the table that is built in.
var Default = sync.OnceValue(func() *Table {
	var file struct {
		Date   string         `json:"date"`
		Prices map[string]Row `json:"prices"`
	}
	if err := json.Unmarshal(embedded, &file); err != nil {
		panic("price: " + err.Error()) // it is ours
	}
	t, err := New(file.Prices)
	if err != nil {
		panic("price: " + err.Error())
	}
	t.Date = file.Date
	return t
})

// New makes a table of rows. Each is for the models that its name means: names as "openai:gpt-5", separated by commas, where * stands for any
// characters. The error names the row.
func New(rows map[string]Row) (*Table, error) {
	t := &Table{exact: map[string]adapter.Price{}}
	for _, names := range slices.Sorted(maps.Keys(rows)) {
		row := rows[names]
		p := row.price()
		for name := range strings.SplitSeq(names, ",") {
			name = strings.TrimSpace(name)
			if err := CheckName(name); err != nil {
				return nil, err
			}
			if strings.Contains(name, "*") {
				t.globs = append(t.globs, glob{name, p})
				continue
			}
			if _, twice := t.exact[name]; twice {
				return nil, fmt.Errorf("%q has two prices; remove one", name)
			}
			t.exact[name] = p
		}
	}
	slices.SortStableFunc(t.globs, func(a, b glob) int { return len(b.name) - len(a.name) })
	return t, nil
}

// CheckName says what is wrong with the name of a model, or a pattern of such.
func CheckName(name string) error {
	provider, model, ok := strings.Cut(name, ":")
	if !ok || provider == "" || model == "" {
		return fmt.Errorf("%q is no model; expected PROVIDER:NAME, such as openai:gpt-5 or openai:gpt-5*", name)
	}
	return nil
}

func (r *Row) price() adapter.Price {
	or := func(rate *float64, base float64) float64 {
		if rate == nil {
			return base
		}
		return *rate
	}
	p := adapter.Price{
		Input: r.Input, Cached: or(r.Cached, r.Input), CacheWrite: or(r.CacheWrite, r.Input), Output: r.Output, Reasoning: or(r.Reasoning, r.Output),
	}
	if r.Long != nil {
		p.Long, p.Over = new(r.Long.price()), r.Long.Over
	}
	return p
}

// version is what the dated versions of a model have behind its name: -2025-08-07, @20250929, -0905, -001, -latest.
var version = regexp.MustCompile(`[-@](20\d\d-?\d\d-?\d\d|\d{3,4}|latest)$`)

// Find returns the price of a model. A name without * is also that of its dated versions.
func (t *Table) Find(provider, model string) (adapter.Price, bool) {
	name := provider + ":" + model
	for _, exact := range []string{name, version.ReplaceAllString(name, "")} {
		if p, ok := t.exact[exact]; ok {
			return p, true
		}
	}
	for _, g := range t.globs {
		if adapter.MatchesPattern(g.name, name) {
			return g.price, true
		}
	}
	return adapter.Price{}, false
}
