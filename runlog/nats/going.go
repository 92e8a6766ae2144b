package nats

import (
	"context"
	"log/slog"
	"strings"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/runlog"
)

// What a message of the stream RUNNING says of the replica and run of its subject.
const (
	goes = "+"
	gone = "-" // with a short life
)

func (l *Log) noteSubject(replica, run string) string {
	return l.cluster.Subject(goingToken, cluster.Token(replica), cluster.Token(run))
}

// note is the message that says that a replica has a run.
func (l *Log) note(replica, run string) *client.Msg {
	m := client.NewMsg(l.noteSubject(replica, run))
	m.Data = []byte(goes)
	return m
}

// unnote takes that back. Nobody waits for it: a note too many is found to be one.
func (l *Log) unnote(replica, run string) {
	m := client.NewMsg(l.noteSubject(replica, run))
	m.Data = []byte(gone)
	m.Header["Nats-Rollup"] = []string{"sub"}
	m.Header["Nats-TTL"] = []string{markerLife.String()}
	if err := l.conn.PublishMsg(m); err != nil {
		l.log.Debug("a run that has ended stays in the list of those that go on", slog.String("run", run), slog.Any("error", err))
	}
}

// Running is that of [runlog.Shared].
func (l *Log) Running(ctx context.Context, replica string) ([]runlog.Going, error) {
	token := "*"
	if replica != "" {
		token = cluster.Token(replica)
	}
	var all []runlog.Going
	err := l.again(ctx, func() (err error) {
		all, err = l.list(ctx, token)
		return err
	})
	return all, err
}

func (l *Log) list(ctx context.Context, token string) ([]runlog.Going, error) {
	var all []runlog.Going
	prefix := len(l.cluster.Subject(goingToken)) + 1
	err := l.batches(ctx, l.going, l.cluster.Subject(goingToken, token, "*"), 1, func(_ uint64, m *client.Msg) (bool, error) {
		subject := m.Header.Get("Nats-Subject")
		if string(m.Data) != goes || len(subject) < prefix {
			return false, nil
		}
		replica, run, _ := strings.Cut(subject[prefix:], ".")
		var g runlog.Going
		var ok1, ok2 bool
		g.Replica, ok1 = cluster.Untoken(replica)
		g.ID, ok2 = cluster.Untoken(run)
		if ok1 && ok2 {
			all = append(all, g)
		}
		return false, nil
	})
	return all, err
}
