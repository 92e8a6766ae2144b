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
