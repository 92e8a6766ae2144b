package config

import (
	"encoding/json"
	"math"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/price"
	"github.com/lingserve/lingserve/internal/yaml"
)

const (
	pricesKey    = "prices"
	examplePrice = `"openai:gpt-5": {input: 1.25, cached: 0.125, output: 10}`
)

// prices reads the prices of the configuration file.
func (l *loader) prices(n *yaml.Node) {
	table, err := price.New(readPrices(&l.Reader, n))
	if err != nil {
		l.Errorf(n, pricesKey, "%v", err)
	}
	l.c.prices = table
}

// Prices returns the prices of models: those of the file of prices or of the configuration file, or else the built-in ones. A server that is only
// compatible with OpenAI's has no built-in prices.
func (c *Config) Prices() (func(provider, model string) (adapter.Price, bool), error) {
	configured := c.prices
	if c.PriceFile != "" {
		text, err := readLimited(c.PriceFile, yaml.MaxBytes)
		if err != nil {
			return nil, c.wrong(pricesKey, "cannot read the file: %s", plain(err))
		}
		r := &yaml.Reader{File: c.PriceFile}
		rows := readPriceFile(r, string(text))
		if err := r.Err(); err != nil {
			return nil, err
		}
		if configured, err = price.New(rows); err != nil {
			return nil, settingError(c.PriceFile, pricesKey, err.Error())
		}
	}
	openAI, _ := c.Provider("openai")
	return func(provider, model string) (adapter.Price, bool) {
		if configured != nil {
			if p, ok := configured.Find(provider, model); ok {
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
		before := r.NumProblems()
		checkPrice(r, k, v, pricesKey+"."+k.Text, "long")
		if r.NumProblems() > before {
			continue
		}
		var row price.Row
		err := json.Unmarshal(v.AppendJSON(nil), &row)
		if err == nil {
			_, err = price.New(map[string]price.Row{k.Text: row})
		}
		if err != nil {
			r.Errorf(k, pricesKey, "%v", err)
		}
		rows[k.Text] = row
	}
	return rows
}

// checkPrice checks the price of a model, with the field long, or of its long requests, with the field over.
func checkPrice(r *yaml.Reader, at, n *yaml.Node, key, last string) {
	if n.Kind != yaml.Mapping {
		r.Errorf(at, key, "expected the prices of its tokens, such as {input: 1.25, cached: 0.125, output: 10}")
		return
	}
	rates := []string{"input", "cached", "cache_write", "output", "reasoning"}
	f := r.Fields(n, key, append(rates, last)...)
	for _, name := range rates {
		if rate := f[name]; rate != nil {
			if dollars, ok := rate.Float(); !ok || dollars < 0 || dollars > adapter.MaxRate {
				r.Errorf(rate, key+"."+name, "expected dollars for a million tokens (such as 1.25), from 0 to %d", adapter.MaxRate)
			}
		}
	}
	if long := f["long"]; long != nil {
		checkPrice(r, n.FindKey([]string{"long"}), long, key+".long", "over")
	}
	r.Int(f["over"], key+".over", 1, math.MaxInt32)
	for _, name := range []string{"input", "output", "over"} {
		if f[name] == nil && (name != "over" || last == name) {
			r.Errorf(at, key, "has no %s", name)
		}
	}
}
