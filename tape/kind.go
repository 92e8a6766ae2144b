package tape

// Kind says what an entry is. Kinds are open: one that is not listed here is kept, returned and exported, and is no part
// of a view.
type Kind string

const (
	KindAnchor     Kind = "anchor"      // {"name","state"}
	KindEvent      Kind = "event"       // {"name","data"}
	KindSystem     Kind = "system"      // {"content"}
	KindMessage    Kind = "message"     // a chat message, {"role","content",…}
	KindReasoning  Kind = "reasoning"   // {"content"}
	KindToolCall   Kind = "tool_call"   // {"content","calls"}
	KindToolResult Kind = "tool_result" // {"ids","results"}
	KindError      Kind = "error"       // {"kind","message"}, and "refused" where a model refused what it was asked
)
