package nats

// Lose has the answers of publishes lost of which lose says so.
func Lose(k *Keys, lose func() bool) { k.lose = lose }
