package channel

// OpenOutboxLines opens the store of an outbox in a folder.
func OpenOutboxLines(dir string) (OutboxStore, error) { return openOutboxLines(dir, nil) }
