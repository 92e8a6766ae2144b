package nats

import (
	"strings"

	client "github.com/nats-io/nats.go"
)

// OnPage has stored called when it is known that a page is stored, before anything is done about it, with the runs that it has. It is called
// before there is a run.
func OnPage(l *Log, stored func(runs []string)) {
	l.lose = func(m *client.Msg) bool {
		if !strings.HasPrefix(m.Subject, l.pump.prefix+"0.") {
			return false
		}
		var runs []string
		for _, e := range l.pump.page.sent {
			runs = append(runs, e.run.ID)
		}
		stored(runs)
		return false
	}
}
