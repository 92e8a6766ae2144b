package config

import (
	"errors"
	"math"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/price"
	"github.com/lingserve/lingserve/internal/yaml"
)

const (
	pricesKey      = "prices"
	examplePrice   = `"openai:gpt-5": {input: 1.25, cached: 0.125, output: 10}`
	priceOfMillion = "dollars for a million tokens (such as 1.25)"
)

// finishPrices makes a table of the prices that are in the configuration file.
func (l *loader) finishPrices() {
	if l.priced == nil {
		return
	}
	table, err := price.New(l.priced)
	if err != nil {
		l.errs = append(l.errs, &Error{Where: l.place(l.pricedAt), Key: pricesKey, Message: err.Error()})
		return
	}
	l.c.prices = table
}

// Prices returns what models cost: by the file of prices that is set, or by the configuration file, and else by what is built in. What is built
// in says nothing of a server that only speaks as OpenAI's does.
func (c *Config) Prices() (func(provider, model string) (adapter.Price, bool), error) {
	own := c.prices
	if c.PriceFile != "" {
		text, err := readLimited(c.PriceFile, yaml.MaxBytes)
		if err != nil {
			return nil, c.wrong(pricesKey, "cannot read the file: %s", plain(err))
		}
		r := &yaml.Reader{File: c.PriceFile}
		rows := readPriceFile(r, string(text))
		if r.NumProblems() > 0 {
			return nil, errors.Join(problems(r)...)
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

// readPriceFile reads a file of prices: a date, which nothing depends on, and the prices by model. It is YAML, or JSON, which is YAML too.
func readPriceFile(r *yaml.Reader, text string) (rows map[string]price.Row) {
	root := r.Parse(text)
	if root == nil {
		return nil
	}
	if root.Kind != yaml.Null {
		if n := r.Fields(root, "", "date", pricesKey)[pricesKey]; n != nil {
			rows = readPrices(r, n)
		}
	}
	if rows == nil && r.NumProblems() == 0 {
		r.Add(&yaml.Error{Message: "prices are missing; expected \"prices:\" with one model per line, such as " + examplePrice})
	}
	return rows
}

// readPrices reads prices by model.
func readPrices(r *yaml.Reader, n *yaml.Node) map[string]price.Row {
	if n.Kind != yaml.Mapping {
		r.Errorf(n, pricesKey, "found %s; expected one model per line, such as %s", n.Kind, examplePrice)
		return nil
	}
	rows := map[string]price.Row{}
	for k, v := range n.Members() {
		if row := readPrice(r, k, v, pricesKey+"."+k.Text, "long"); row != nil {
			if _, err := price.New(map[string]price.Row{k.Text: *row}); err != nil {
				r.Errorf(k, pricesKey, "%v", err)
				continue
			}
			rows[k.Text] = *row
		}
	}
	return rows
}

// readPrice reads the price of a model, with the field long, or of its long requests, with the field over; nil where it is wrong.
func readPrice(r *yaml.Reader, at, n *yaml.Node, key, last string) *price.Row {
	if n.Kind != yaml.Mapping {
		r.Errorf(at, key, "expected the prices of its tokens, such as {input: 1.25, cached: 0.125, output: 10}")
		return nil
	}
	before := r.NumProblems()
	f := r.Fields(n, key, "input", "cached", "cache_write", "output", "reasoning", last)
	rate := func(name string) *float64 { return readRate(r, f[name], key+"."+name) }
	row := &price.Row{Cached: rate("cached"), CacheWrite: rate("cache_write"), Reasoning: rate("reasoning")}
	for name, to := range map[string]*float64{"input": &row.Input, "output": &row.Output} {
		if rate := rate(name); rate != nil {
			*to = *rate
		}
	}
	if long := f["long"]; long != nil {
		row.Long = readPrice(r, n.FindKey([]string{"long"}), long, key+".long", "over")
	}
	row.Over, _ = r.Int(f["over"], key+".over", 1, math.MaxInt32)
	for _, name := range []string{"input", "output", "over"} {
		if f[name] == nil && (name != "over" || last == name) {
			r.Errorf(at, key, "has no %s", name)
		}
	}
	if r.NumProblems() > before {
		return nil
	}
	return row
}

// readRate reads what a million tokens cost; nil if that is not said.
func readRate(r *yaml.Reader, n *yaml.Node, key string) *float64 {
	if n == nil {
		return nil
	}
	f, ok := n.Float()
	if !ok || !(f >= 0 && f <= adapter.MaxRate) {
		r.Errorf(n, key, "expected %s, from 0 to %d", priceOfMillion, adapter.MaxRate)
		return nil
	}
	return &f
}
