package tape

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Meta is what this project keeps beside the payload of an entry. Members that are not listed are kept too.
//
// Ids of other entries are only in Refs and Source, so that they can be rewritten where entries get new ids.
type Meta struct {
	Turn          string // turn that appended it
	Run           string // run on whose behalf
	Message       string // of a user's message: its id, as its channel has it
	ContextHidden bool   // "context":false, in no view
	Partial       bool   // a reply that was cut off
	Steered       bool   // a message that came while the turn was running
	Fork          string // fork that it was merged from
	Spill         []Spill
	Refs          []int64
	Source        []int64 // first and last id of what an anchor stands for

	// Of a user's message: what it calls its session, where that is not the beginning of its text.
	Title string
	// Of an entry that begins a turn, and of a command: the agent that it is for.
	Agent string
	// Of an entry that begins a session: its readable id and its workspace.
	Session   string
	Workspace string
	// Of an anchor: the settings as they were.
	Settings map[string]json.RawMessage
}

// Spill says that a blob holds something of the entry: the whole of result number Index, or media.
type Spill struct {
	Index  int    `json:"index"`
	Handle string `json:"handle"`
	Size   int64  `json:"size"` // bytes
}

// metaField is one of the members that a Meta knows, in the order in which they are written.
type metaField struct {
	name string
	get  func(*Meta) any // nil when there is nothing to write
	set  func(*Meta, json.RawMessage)
}

func field[T any](name string, of func(*Meta) *T, zero func(T) bool) metaField {
	return metaField{
		name: name,
		get: func(m *Meta) any {
			if v := *of(m); !zero(v) {
				return v
			}
			return nil
		},
		// A member of another type than ours is somebody else's: it is kept and says nothing to us.
		set: func(m *Meta, raw json.RawMessage) {
			var v T
			if json.Unmarshal(raw, &v) == nil {
				*of(m) = v
			}
		},
	}
}

func noText(s string) bool   { return s == "" }
func no(b bool) bool         { return !b }
func none[T any](s []T) bool { return len(s) == 0 }

var metaFields = []metaField{
	field("turn", func(m *Meta) *string { return &m.Turn }, noText),
	field("run", func(m *Meta) *string { return &m.Run }, noText),
	field("message", func(m *Meta) *string { return &m.Message }, noText),
	{
		name: "context",
		get: func(m *Meta) any {
			if m.ContextHidden {
				return false
			}
			return nil
		},
		set: func(m *Meta, raw json.RawMessage) { m.ContextHidden = string(raw) == "false" },
	},
	field("partial", func(m *Meta) *bool { return &m.Partial }, no),
	field("steered", func(m *Meta) *bool { return &m.Steered }, no),
	field("fork", func(m *Meta) *string { return &m.Fork }, noText),
	field("spill", func(m *Meta) *[]Spill { return &m.Spill }, none),
	field("refs", func(m *Meta) *[]int64 { return &m.Refs }, none),
	field("source", func(m *Meta) *[]int64 { return &m.Source }, none),
	field("title", func(m *Meta) *string { return &m.Title }, noText),
	field("agent", func(m *Meta) *string { return &m.Agent }, noText),
	field("session", func(m *Meta) *string { return &m.Session }, noText),
	field("workspace", func(m *Meta) *string { return &m.Workspace }, noText),
	field("settings", func(m *Meta) *map[string]json.RawMessage { return &m.Settings },
		func(s map[string]json.RawMessage) bool { return len(s) == 0 }),
}

// MetaOf reads the meta of an entry.
func MetaOf(e Entry) Meta {
	var m Meta
	if emptyObject(e.Meta) {
		return m
	}
	var raw map[string]json.RawMessage
	if json.Unmarshal(e.Meta, &raw) != nil {
		return m
	}
	for _, f := range metaFields {
		if v, ok := raw[f.name]; ok {
			f.set(&m, v)
		}
	}
	return m
}

// With is the entry with what is set in m added to its meta; members of the same name are replaced, the others kept.
func (e Entry) With(m Meta) Entry {
	raw := map[string]json.RawMessage{}
	if !emptyObject(e.Meta) && json.Unmarshal(e.Meta, &raw) != nil {
		return e // Append refuses it
	}
	var b bytes.Buffer
	put := func(name string, value json.RawMessage) {
		b.WriteByte(',')
		b.Write(encode(name))
		b.WriteByte(':')
		b.Write(value)
	}
	for _, f := range metaFields {
		if v := f.get(&m); v != nil {
			put(f.name, encode(v))
		} else if old, ok := raw[f.name]; ok {
			put(f.name, old)
		}
		delete(raw, f.name)
	}
	if len(raw) > 0 { // sorting takes memory also where there is nothing to sort
		for _, name := range slices.Sorted(maps.Keys(raw)) {
			put(name, raw[name])
		}
	}
	b.WriteByte('}')
	e.Meta = b.Bytes()
	e.Meta[0] = '{' // in place of the first comma; alone it is the end, and then there is nothing to write
	if len(e.Meta) == 1 {
		e.Meta = nil
	}
	return e
}

func emptyObject(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "{}" }
