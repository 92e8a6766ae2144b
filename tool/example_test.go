package tool_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lingserve/lingserve/tool"
)

type weatherIn struct {
	City string `json:"city" jsonschema:"the name of a city"`
}

type weatherOut struct {
	Sky     string  `json:"sky"`
	Degrees float64 `json:"degrees"`
}

// A Go function becomes a tool; what a model wrote is held to the schema of its struct.
func Example() {
	weather, err := tool.New("weather", "says how the weather is in a city",
		func(_ context.Context, in weatherIn) (weatherOut, error) {
			return weatherOut{"sunny", 21.5}, nil
		})
	if err != nil {
		panic(err)
	}
	set, err := tool.NewSet(weather)
	if err != nil {
		panic(err)
	}
	calls := []tool.Call{
		{ID: "c1", Name: "weather", Arguments: json.RawMessage(`{"city":"Lima"}`)},
		{ID: "c2", Name: "weather", Arguments: json.RawMessage(`{"town":"Lima"}`)},
		{ID: "c3", Name: "whether", Arguments: nil},
	}
	results := make([]tool.Result, len(calls))
	for i, result := range new(tool.Runner).Run(context.Background(), set.Tools(), calls) { // in the order in which they end
		results[i] = result
	}
	for _, r := range results {
		fmt.Println(r.ID, r.Text())
	}
	// Output:
	// c1 {"sky":"sunny","degrees":21.5}
	// c2 {"error":{"kind":"invalid_arguments","message":"invalid arguments: /city: this property is required; /town: unknown property"}}
	// c3 {"error":{"kind":"unknown_tool","message":"unknown tool \"whether\"; did you mean weather?"}}
}

type payIn struct {
	To    string `json:"to"`
	Cents int    `json:"cents"`
}

// A tool that must not act twice stores the key of each call with what it did. After a crash the same call has the same key.
func ExampleKey() {
	receipts := map[string]string{} // in a real program, a table with a unique key
	pay := tool.Must(tool.New("pay", "Pays an invoice.", func(ctx context.Context, in payIn) (string, error) {
		key := tool.Key(ctx)
		if receipts[key] == "" {
			receipts[key] = fmt.Sprintf("receipt %d: %d cents to %s", len(receipts)+1, in.Cents, in.To)
		}
		return receipts[key], nil
	}, tool.WithIdempotent()))
	call := tool.Call{ID: "c1", Name: "pay", Arguments: json.RawMessage(`{"to":"Ann","cents":500}`), Key: "k7wz4c2xq5tdhw3ybnae6rpsgm"}
	for range 2 {
		for _, r := range new(tool.Runner).Run(context.Background(), []*tool.Tool{pay}, []tool.Call{call}) {
			fmt.Println(r.Text())
		}
	}
	// Output:
	// receipt 1: 500 cents to Ann
	// receipt 1: 500 cents to Ann
}
