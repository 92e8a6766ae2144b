package tape

import (
	"encoding/json"
	"strconv"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// Meta is what this project keeps beside the payload of an entry. Members that are not listed are kept too.
//
// Ids of other entries are only in Refs and Source, so that they can be rewritten where entries get new ids.
type Meta struct {
	Turn    string  `json:"turn,omitempty"`    // turn that appended it
	Run     string  `json:"run,omitempty"`     // run on whose behalf
	Message string  `json:"message,omitempty"` // of a user's message: its id, as its channel has it
	Partial bool    `json:"partial,omitempty"` // a reply that was cut off
	Steered bool    `json:"steered,omitempty"` // a message that came while the turn was running
	Fork    string  `json:"fork,omitempty"`    // fork that it was merged from
	Spill   []Spill `json:"spill,omitempty"`
	Refs    []int64 `json:"refs,omitempty"`
	Source  []int64 `json:"source,omitempty"` // first and last id of what an anchor stands for

	// Of a user's message: what it calls its session, where that is not the beginning of its text.
	Title string `json:"title,omitempty"`
	// Of an entry that begins a turn, and of a command: the agent that it is for.
	Agent string `json:"agent,omitempty"`
	// Of an entry that begins a session: its readable id and its workspace.
	Session   string `json:"session,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	// Of an anchor: the settings as they were.
	Settings map[string]json.RawMessage `json:"settings,omitempty"`

	ContextHidden hidden `json:"context,omitempty"` // "context":false, in no view
	SearchHidden  hidden `json:"search,omitempty"`  // "search":false, in no search: the result of a search
}

// hidden is true where an entry is not shown. Its JSON is the opposite.
type hidden bool

// MarshalJSON implements [json.Marshaler].
func (h hidden) MarshalJSON() ([]byte, error) { return strconv.AppendBool(nil, !bool(h)), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (h *hidden) UnmarshalJSON(text []byte) error {
	*h = string(text) == "false"
	return nil
}

// Spill says that a blob holds something of the entry: the whole of result number Index, or media.
type Spill struct {
	Index  int    `json:"index"`
	Handle string `json:"handle"`
	Size   int64  `json:"size"` // bytes
}

// MetaOf reads the meta of an entry. A member of another type than expected is ignored.
func MetaOf(e Entry) (m Meta) {
	if !emptyObject(e.Meta) {
		_ = json.Unmarshal(e.Meta, &m) // leaves out what has another type
	}
	return m
}

// With is the entry with what is set in m added to its meta; members of the same name are replaced, the others kept.
func (e Entry) With(m Meta) Entry {
	for name, value := range rawjson.Members(encode(m)) {
		e.Meta = setMember(e.Meta, name, value)
	}
	return e
}

func emptyObject(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "{}" }
