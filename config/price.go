package config

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/price"
)

// Cost bounds what models may cost, in dollars; 0 is no limit.
type Cost struct {
	Run     float64
	Session float64
	Caller  float64 // in a day
	Day     float64 // of all together
}

// costSettings belong to the section limit.
var costSettings = []Setting{
	{
		Key: "limit.cost.run", Default: "0", Min: "0",
		Help:  "dollars for one run; 0: no limit",
		field: func(c *Config) any { return &c.Cost.Run },
	},
	{
		Key: "limit.cost.session", Default: "0", Min: "0",
		Help:  "dollars for one session; 0: no limit",
		field: func(c *Config) any { return &c.Cost.Session },
	},
	{
		Key: "limit.cost.caller", Default: "0", Min: "0",
		Help:  "dollars for one caller per UTC day; 0: no limit",
		field: func(c *Config) any { return &c.Cost.Caller },
	},
	{
		Key: "limit.cost.day", Default: "0", Min: "0",
		Help:  "dollars for all callers per UTC day; 0: no limit",
		field: func(c *Config) any { return &c.Cost.Day },
	},
}

var priceSettings = []Setting{
	{
		Key:   "prices",
		Help:  "file of model prices, which override the built-in ones",
		field: func(c *Config) any { return &c.PriceFile },
	},
}

const (
	pricesKey      = "prices"
	maxPricesFile  = 1 << 20
	examplePrice   = `"openai:gpt-5": {input: 1.25, cached: 0.125, output: 10}`
	priceOfMillion = "dollars for a million tokens (such as 1.25)"
)

// prices reads the prices that stand in the configuration file itself.
func (r *fileReader) prices(m *ast.MappingValueNode) {
	at := m.Key.GetToken()
	r.priced = r.rows(m.Value, pricesKey)
	r.values[pricesKey] = &value{from: Source{File, fmt.Sprintf("%s:%d", r.name, at.Position.Line)}, at: r.place(at)}
}

// finishPrices makes a table of the prices that stand in the configuration file.
func (l *loader) finishPrices() {
	if l.file == nil || l.file.priced == nil || l.c.PriceFile != "" { // a flag or a variable names another file
		return
	}
	own, err := price.New(l.file.priced)
	if err != nil {
		l.errs = append(l.errs, &Error{Where: l.file.values[pricesKey].at, Key: pricesKey, Message: err.Error()})
		return
	}
	l.c.prices = own
}

// Prices returns what models cost: by the file of prices that is set, or by the configuration file, and else by what is built in. What is built
// in says nothing of a server that only speaks as OpenAI's does.
func (c *Config) Prices() (func(provider, model string) (adapter.Price, bool), error) {
	own := c.prices
	if c.PriceFile != "" {
		text, err := readLimited(c.PriceFile, maxPricesFile)
		if err != nil {
			return nil, &Error{Where: c.sources[pricesKey].where(pricesKey), Key: pricesKey, Message: "cannot read the file: " + plain(err)}
		}
		r := &fileReader{name: c.PriceFile}
		rows := r.pricesFile(text)
		if len(r.errs) > 0 {
			return nil, errors.Join(r.errs...)
		}
		if own, err = price.New(rows); err != nil {
			return nil, &Error{Where: c.PriceFile, Key: pricesKey, Message: err.Error()}
		}
	}
	openAI, _ := c.Provider("openai")
	return func(provider, model string) (adapter.Price, bool) {
		if own != nil {
			if p, ok := own.Find(provider, model); ok {
				return p, true
			}
		}
		if provider == openAI.Name && openAI.BaseURL != presets[0].BaseURL {
			return adapter.Price{}, false
		}
		return price.Default().Find(provider, model)
	}, nil
}

// pricesFile reads a file of prices: a date, which nothing depends on, and the prices by model. It is YAML, or JSON, which is YAML too.
func (r *fileReader) pricesFile(text []byte) (rows map[string]price.Row) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if deepest(text) > 64 {
		r.errs = append(r.errs, &Error{Where: r.name, Message: "brackets are nested too deeply; remove some"})
		return nil
	}
	file, err := parse(text)
	if err != nil {
		if ye, ok := errors.AsType[yaml.Error](err); ok && ye.GetToken() != nil {
			r.fail(ye.GetToken(), "", "not valid YAML: %s", ye.GetMessage())
		} else {
			r.errs = append(r.errs, &Error{Where: r.name, Message: "not valid YAML"})
		}
		return nil
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		members, ok := mapping(doc.Body)
		if !ok {
			r.fail(doc.Body.GetToken(), "", "expected \"date: …\" and \"prices: …\"")
			return nil
		}
		for _, m := range members {
			switch at := m.Key.GetToken(); at.Value {
			case "date":
			case pricesKey:
				rows = r.rows(m.Value, pricesKey)
			default:
				r.fail(at, at.Value, "unknown field; expected date or prices")
			}
		}
	}
	if rows == nil && len(r.errs) == 0 {
		r.errs = append(r.errs, &Error{Where: r.name, Message: "prices are missing; expected \"prices:\" with one model per line, such as " + examplePrice})
	}
	return rows
}

// rows reads prices by model.
func (r *fileReader) rows(n ast.Node, key string) map[string]price.Row {
	members, ok := mapping(n)
	if !ok {
		r.fail(n.GetToken(), key, "found %s; expected one model per line, such as %s", found(n), examplePrice)
		return nil
	}
	rows := map[string]price.Row{}
	for _, m := range members {
		at := m.Key.GetToken()
		of := key + "." + at.Value
		if row := r.row(at, m.Value, of, false); row != nil {
			if _, err := price.New(map[string]price.Row{at.Value: *row}); err != nil {
				r.fail(at, key, "%v", err)
				continue
			}
			rows[at.Value] = *row
		}
	}
	return rows
}

// row reads the price of a model, or of its long requests; nil where it is wrong.
func (r *fileReader) row(at *token.Token, n ast.Node, key string, long bool) *price.Row {
	members, ok := mapping(n)
	if !ok {
		r.fail(at, key, "expected the prices of its tokens, such as {input: 1.25, cached: 0.125, output: 10}")
		return nil
	}
	row, before := new(price.Row), len(r.errs)
	names := []string{"input", "cached", "cache_write", "output", "reasoning"}
	if long {
		names = append(names, "over")
	} else {
		names = append(names, "long")
	}
	written := map[string]bool{}
	for _, m := range members {
		name := m.Key.GetToken().Value
		of := key + "." + name
		written[name] = true
		rate := func() *float64 { return r.rate(m.Value, of) }
		switch {
		case name == "input":
			if f := rate(); f != nil {
				row.Input = *f
			}
		case name == "output":
			if f := rate(); f != nil {
				row.Output = *f
			}
		case name == "cached":
			row.Cached = rate()
		case name == "cache_write":
			row.CacheWrite = rate()
		case name == "reasoning":
			row.Reasoning = rate()
		case name == "long" && !long:
			row.Long = r.row(m.Key.GetToken(), m.Value, of, true)
		case name == "over" && long:
			over, err := strconv.Atoi(m.Value.GetToken().Value)
			if err != nil || over < 1 {
				r.fail(m.Value.GetToken(), of, "expected the number of input tokens above which a request is long, such as 200000")
			}
			row.Over = over
		default:
			hint := ""
			if near := Nearest(name, names); near != "" {
				hint = "; did you mean " + near + "?"
			}
			r.fail(m.Key.GetToken(), of, "unknown field%s", hint)
		}
	}
	for _, name := range []string{"input", "output", "over"} {
		if !written[name] && (name != "over" || long) {
			r.fail(at, key, "has no %s", name)
		}
	}
	if len(r.errs) > before {
		return nil
	}
	return row
}

// rate reads what a million tokens cost.
func (r *fileReader) rate(n ast.Node, key string) *float64 {
	f, err := strconv.ParseFloat(n.GetToken().Value, 64)
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
	default:
		err = errors.New("no number")
	}
	if err != nil || !(f >= 0 && f <= adapter.MaxRate) {
		r.fail(n.GetToken(), key, "expected %s, from 0 to %d", priceOfMillion, adapter.MaxRate)
		return nil
	}
	return &f
}
