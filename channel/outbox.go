package channel

// Outbox holds blocks until they are sent, across restarts.
type Outbox struct{}
