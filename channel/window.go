package channel

// Window keeps unanswered messages of groups until somebody addresses the agent.
type Window struct{}

// WindowKey names one window.
type WindowKey struct{ Channel, Account, Conversation, Thread string }

// Snapshot is what a turn sees of a window, and what finalize consumes of it.
type Snapshot struct {
	Key     WindowKey
	Entries []HistoryEntry
}
