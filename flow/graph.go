package flow

import "encoding/json"

// Graph is what starts what (FL-06).
type Graph struct {
	Bots   []Node  `json:"bots"`
	Events []Event `json:"events,omitempty"`
}

// Node is a bot of a graph.
type Node struct {
	Name   string             `json:"name"`
	Root   string             `json:"root"`
	Format string             `json:"format"`
	Model  string             `json:"model,omitempty"`
	On     OneOrMore[Trigger] `json:"on,omitempty"`    // none: starts with the run
	After  []string           `json:"after,omitempty"` // names of the bots that can fire a trigger
}

// Event is a status event of a graph.
type Event struct {
	Name string             `json:"name"`
	On   OneOrMore[Trigger] `json:"on"`
}

// Trigger is what starts a bot: exactly one member is set, but for a pattern that is the root (""), where none is.
type Trigger struct {
	String    string            `json:"string,omitempty"`    // uri pattern: a string is complete there
	Object    string            `json:"object,omitempty"`    // an object or array is
	Value     string            `json:"value,omitempty"`     // any value is
	Done      OneOrMore[string] `json:"done,omitempty"`      // all bots of those names have ended
	Completed OneOrMore[string] `json:"completed,omitempty"` // they have, and none of them has failed
	Error     string            `json:"error,omitempty"`     // a bot of that name has failed
}

// OneOrMore is a list that is written as its element where it has only one.
type OneOrMore[T any] []T

// MarshalJSON writes the only element, or a list.
func (o OneOrMore[T]) MarshalJSON() ([]byte, error) {
	if len(o) == 1 {
		return json.Marshal(o[0])
	}
	return json.Marshal([]T(o))
}

// UnmarshalJSON reads one element, or a list.
func (o *OneOrMore[T]) UnmarshalJSON(text []byte) error {
	var one T
	if err := json.Unmarshal(text, &one); err == nil {
		*o = OneOrMore[T]{one}
		return nil
	}
	return json.Unmarshal(text, (*[]T)(o))
}

// graph describes the workflow (FL-06).
func (s *spec) graph() *Graph {
	g := &Graph{Bots: []Node{}}
	for _, b := range s.bots {
		n := Node{Name: b.name, Root: b.rootText, Format: string(b.format), Model: b.model, On: b.on.public()}
		for _, source := range b.sources {
			n.After = append(n.After, s.bots[source].name)
		}
		g.Bots = append(g.Bots, n)
	}
	for _, e := range s.events {
		g.Events = append(g.Events, Event{Name: e.name, On: e.on.public()})
	}
	return g
}
