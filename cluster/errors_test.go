package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
)

// TestErrorsOfTheServers: which say that there is no room, which pass by themselves, and after which a message surely is not stored. What
// the servers answer is from their own list.
func TestErrorsOfTheServers(t *testing.T) {
	t.Parallel()
	answered := func(id server.ErrorIdentifier) error {
		e := server.ApiErrors[id]
		if e == nil {
			t.Fatalf("the servers have no error %d", id)
		}
		return &jetstream.APIError{Code: e.Code, ErrorCode: jetstream.ErrorCode(e.ErrCode), Description: e.Description}
	}
	type is struct{ full, passing, unstored, wrong bool }
	var (
		refused = is{unstored: true}
		full    = is{full: true, unstored: true}
		busy    = is{passing: true, unstored: true}
		away    = is{passing: true, unstored: true} // and nothing was sent
		doubt   = is{passing: true}
		unknown = is{}
	)
	for _, row := range []struct {
		name string
		err  error
		code jetstream.ErrorCode
		want is
	}{
		{"no error", nil, 0, unknown},
		{"one of somebody else", errors.New("no"), 0, unknown},
		{"the caller has given up", context.Canceled, 0, unknown},

		{"the servers' storage is full", answered(server.JSInsufficientResourcesErr), 10023, full},
		{"no storage is left to set aside", answered(server.JSStorageResourcesExceededErr), 10047, full},
		{"a limit of the account", answered(server.JSAccountResourcesExceededErr), 10002, full},
		{"a limit of the stream", answered(server.JSStreamStoreFailedF), 10077, full},

		{"no leader of all", answered(server.JSClusterNotAvailErr), 10008, busy},
		{"not the leader", answered(server.JSClusterNotLeaderErr), 10009, busy},
		{"JetStream is not there, or not yet", answered(server.JSNotEnabledErr), 10076, busy},
		{"the stream is sent too much at once", answered(server.JSStreamTooManyRequests), 10167, busy},
		{"too many atomic batches", answered(server.JSAtomicPublishTooManyInflight), 10210, busy},
		{"an atomic batch without one of its messages", answered(server.JSAtomicPublishIncompleteBatchErr), 10176, busy},
		{"a request took a server too long", &jetstream.APIError{Code: 408, Description: "Request Timeout"}, 0, doubt},
		{"another message of the subject is being stored", answered(server.JSStreamWrongLastSequenceConstantErr), 10164, is{passing: true, unstored: true, wrong: true}},

		{"another message is the last", answered(server.JSStreamWrongLastSequenceErrF), 10071, is{unstored: true, wrong: true}},
		{"no such stream", jetstream.ErrStreamNotFound, 10059, refused},
		{"no such message", jetstream.ErrMsgNotFound, 10037, refused},
		{"the message is too large", answered(server.JSStreamMessageExceedsMaximumErr), 10054, refused},
		{"a bad request", answered(server.JSBadRequestErr), 10003, refused},

		{"nothing can be sent", nats.ErrReconnectBufExceeded, 0, away},
		{"nobody listens", nats.ErrNoResponders, 0, away},
		{"no stream listens", jetstream.ErrNoStreamResponse, 0, away},
		{"no answer in the client's time", nats.ErrTimeout, 0, doubt},
		{"no answer in the caller's time", context.DeadlineExceeded, 0, doubt},
		{"the connection has broken", nats.ErrDisconnected, 0, doubt},
		{"the connection is stale", nats.ErrStaleConnection, 0, doubt},
		{"the connection is being made", nats.ErrConnectionReconnecting, 0, doubt},
		{"no server", nats.ErrNoServers, 0, doubt},
		{"the connection is closed", nats.ErrConnectionClosed, 0, doubt},
	} {
		for form, err := range map[string]error{"": row.err, ", wrapped": fmt.Errorf("store it: %w", row.err)} {
			if got := cluster.Code(err); got != row.code {
				t.Errorf("%s%s: the code is %d, want %d", row.name, form, got, row.code)
			}
			if got := (is{cluster.Full(err), cluster.Passing(err), cluster.Unstored(err), cluster.WrongSequence(err)}); got != row.want {
				t.Errorf("%s%s: is %+v, want %+v", row.name, form, got, row.want)
			}
		}
	}
}

// TestARequestThatWasOnItsWayMayBeStored when this process closes the connection, CL-02.
func TestARequestThatWasOnItsWayMayBeStored(t *testing.T) {
	t.Parallel()
	conn, err := nats.Connect(natsServer(t, &server.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	come := make(chan struct{})
	if _, err := conn.Subscribe("s", func(*nats.Msg) { close(come) }); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := conn.RequestWithContext(t.Context(), "s", nil)
		answered <- err
	}()
	<-come
	conn.Close()
	if err := <-answered; err == nil || cluster.Unstored(err) {
		t.Errorf("a request that a subscriber has: %v, and it is said that it surely is not stored", err)
	}
}

// TestNoRoomIsSaid to be so by servers of which the account is full, or the stream, CL-10.
func TestNoRoomIsSaid(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "server.conf")
	if err := os.WriteFile(file, []byte(`
		jetstream {}
		accounts {
			small { users: [{user: small, password: p}], jetstream: {max_file: 64K} }
			large { users: [{user: large, password: p}], jetstream: enabled }
		}`), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	url := natsServer(t, o)
	for account, stream := range map[string]jetstream.StreamConfig{"small": {}, "large": {MaxBytes: 64 << 10, Discard: jetstream.DiscardNew}} {
		conn, err := nats.Connect(url, nats.UserInfo(account, "p"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		stream.Name, stream.Subjects = "S", []string{"s"}
		if _, err := js.CreateStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		for range 64 {
			if _, err = js.Publish(t.Context(), "s", make([]byte, 1<<10)); err != nil {
				break
			}
		}
		if !cluster.Full(err) || cluster.Passing(err) || !cluster.Unstored(err) {
			t.Errorf("an account that is %s, with 64 KiB in all: %v, and that is not said to be for want of room", account, err)
		}
	}
}
