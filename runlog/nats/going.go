package nats

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

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

// goneNote is what takes the place of a note for a while.
func goneNote(subject string) *client.Msg {
	m := client.NewMsg(subject)
	m.Data = []byte(gone)
	m.Header["Nats-Rollup"] = []string{"sub"}
	m.Header["Nats-TTL"] = []string{markerLife.String()}
	return m
}

// unnote takes that back. Nobody waits for it: a note too many is found to be one.
func (l *Log) unnote(replica, run string) {
	m := goneNote(l.noteSubject(replica, run))
	if err := l.conn.PublishMsg(m); err != nil {
		l.log.Debug("ended run stays in the list of running runs", slog.String("run", run), slog.Any("error", err))
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

// list reads the notes. Before that it stores one that is nobody's: who has it has all that were stored before.
func (l *Log) list(ctx context.Context, token string) ([]runlog.Going, error) {
	place := token
	if token == "*" {
		place = cluster.BarrierToken
	}
	nobodys := goneNote(l.cluster.Subject(goingToken, place, cluster.BarrierToken))
	last, err := l.request(ctx, nobodys)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", runlog.ErrAway, err)
	}
	var all []runlog.Going
	prefix := len(l.cluster.Subject(goingToken)) + 1
	read := uint64(0)
	take := func(seq uint64, m *client.Msg) (bool, error) {
		read = seq
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
	}
	wait := staleWait
	for range readTries {
		if err := l.batches(ctx, l.going, l.cluster.Subject(goingToken, token, "*"), read+1, take); err != nil {
			return nil, err
		}
		if read >= last {
			return all, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		wait *= 2
	}
	return nil, errStale
}
