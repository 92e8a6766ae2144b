package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	storenats "github.com/lingserve/lingserve/store/nats"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
)

// TestOpenSaysWhyItCannot: each reason is another error, which names the server and no secret.
func TestOpenSaysWhyItCannot(t *testing.T) {
	t.Parallel()
	nobody := clustertest.Addresses(t, 1)[0] // which no connection of another test gets
	for _, row := range []struct {
		name   string
		listen string
		o      cluster.Options
		is     error
		want   string
	}{
		{"nobody listens", nobody, cluster.Options{}, cluster.ErrUnreachable, nobody},
		{
			"a wrong password", natsServer(t, &server.Options{JetStream: true, Username: "u", Password: "p4ss"}),
			cluster.Options{User: "u", Password: "s3cret"},
			cluster.ErrRefused, "Authorization Violation",
		},
		{
			"a wrong token", natsServer(t, &server.Options{JetStream: true, Authorization: "p4ss"}),
			cluster.Options{Token: "s3cret"},
			cluster.ErrRefused, "Authorization Violation",
		},
		{"no JetStream", natsServer(t, &server.Options{}), cluster.Options{}, cluster.ErrNoJetStream, "is not enabled on"},
		{
			"a user who may ask nothing", natsServer(t, &server.Options{JetStream: true, Users: []*server.User{user("else.>")}}),
			cluster.Options{User: "u", Password: "p4ss"},
			cluster.ErrForbidden, "Permissions Violation for ",
		},
		{
			"copies at one server", natsServer(t, &server.Options{JetStream: true}),
			cluster.Options{Copies: 3},
			cluster.ErrNoCluster, "3 copies at",
		},
		{"an old server", oldServer(t), cluster.Options{}, cluster.ErrTooOld, "has version 2.10.29; expected 2.11 or newer"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.o.Servers = "nats://" + row.listen
			if row.o.User == "" && row.o.Token == "" {
				row.o.Servers = "nats://u:s3cret@" + row.listen
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if !errors.Is(row.is, cluster.ErrUnreachable) { // these are said at once
				ctx = t.Context()
			}
			_, err := cluster.Open(ctx, row.o)
			if !errors.Is(err, row.is) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, want %v with %q", err, row.is, row.want)
			}
			if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "p4ss")) {
				t.Errorf("a secret is in %v", err)
			}
		})
	}
}

// user is u with the password p4ss, who may use these subjects.
func user(subjects ...string) *server.User {
	may := &server.SubjectPermission{Allow: subjects}
	return &server.User{Username: "u", Password: "p4ss", Permissions: &server.Permissions{Publish: may, Subscribe: may}}
}

// The subjects that the package names are all that it needs, and who may not use one of them is told which.
func TestAReplicaNeedsSubjects(t *testing.T) {
	t.Parallel()
	needed := []string{"lingserve.>", "$JS.>", "_INBOX.>"}
	join := func(subjects ...string) error {
		c, err := cluster.Open(t.Context(), cluster.Options{
			Servers: "nats://" + natsServer(t, &server.Options{JetStream: true, Users: []*server.User{user(subjects...)}}),
			User:    "u", Password: "p4ss",
		})
		if err != nil {
			return err
		}
		_, err = storenats.Join(t.Context(), c)
		return errors.Join(err, c.Close())
	}
	if err := join(needed...); err != nil {
		t.Error(err)
	}
	for i, without := range needed {
		rest := append(append([]string{}, needed[:i]...), needed[i+1:]...)
		err := join(rest...)
		if !errors.Is(err, cluster.ErrForbidden) || !strings.Contains(err.Error(), `"`+strings.TrimSuffix(without, ">")) {
			t.Errorf("without %s: %v", without, err)
		}
	}
}

// natsServer runs a server that is configured by somebody else, and returns its address.
func natsServer(t *testing.T, o *server.Options) string {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog, o.StoreDir = "127.0.0.1", server.RANDOM_PORT, true, true, t.TempDir()
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(soon) {
		t.Fatal("the server is not ready")
	}
	return s.Addr().String()
}

// oldServer greets as a server of another time does.
func oldServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip("no listener on loopback is allowed here: ", err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(conn, "INFO {\"server_id\":\"X\",\"server_name\":\"old\",\"version\":\"2.10.29\",\"headers\":true,\"max_payload\":1048576}\r\nPONG\r\n")
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

// TestTheWaysIn: what operators of NATS use.
func TestTheWaysIn(t *testing.T) {
	t.Parallel()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err1 := pair.Seed()
	public, err2 := pair.PublicKey()
	file := filepath.Join(t.TempDir(), "user.nk")
	if err := errors.Join(err1, err2, os.WriteFile(file, seed, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		s    server.Options
		o    cluster.Options
		url  string
	}{
		{"a user and password", server.Options{Username: "u", Password: "p"}, cluster.Options{User: "u", Password: "p"}, "nats://%s"},
		{"in the URL", server.Options{Username: "u", Password: "p"}, cluster.Options{}, "nats://u:p@%s"},
		{"a token", server.Options{Authorization: "t0ken"}, cluster.Options{Token: "t0ken"}, "nats://%s"},
		{"an nkey", server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}}, cluster.Options{NKey: file}, "nats://%s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.s.JetStream = true
			row.o.Servers = fmt.Sprintf(row.url, natsServer(t, &row.s))
			c, err := cluster.Open(t.Context(), row.o)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAnEmbeddedServerListensNowhere unless it is told to (CL-01), keeps what it stores, and lets no second one into its folder.
func TestAnEmbeddedServerListensNowhere(t *testing.T) {
	t.Parallel()
	o := cluster.Options{Servers: cluster.Embedded, Dir: t.TempDir()}
	c, err := cluster.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Server().NATS(); s.Addr() != nil || s.ClusterAddr() != nil || s.MonitorAddr() != nil || s.ProfilerAddr() != nil {
		t.Error("it listens")
	}
	if c.Copies() != 1 || !c.State().Connected {
		t.Errorf("%d copies, %+v", c.Copies(), c.State())
	}
	ctx := t.Context()
	config := jetstream.StreamConfig{Name: "X", Subjects: []string{c.Subject("x", ">")}}
	if _, err := c.Stream(ctx, config); err != nil {
		t.Fatal(err)
	}
	if _, err := c.JetStream().Publish(ctx, c.Subject("x", "a"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Open(ctx, o); err == nil || !strings.Contains(err.Error(), "another process uses it for a server") {
		t.Errorf("a second server in the folder: %v", err)
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	if c, err = cluster.Open(ctx, o); err != nil {
		t.Fatal(err)
	}
	s, err := c.Stream(ctx, config)
	if err != nil || s.CachedInfo().State.Msgs != 1 {
		t.Errorf("after a start the stream has %+v, %v", s, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestThreeEmbeddedServersAreACluster (CL-01): each replica runs one of them, with a password and without.
func TestThreeEmbeddedServersAreACluster(t *testing.T) {
	for name, o := range map[string]cluster.Options{
		"open on loopback": {},
		"with a password":  {User: "u", Password: "s3cret"},
		"with a token":     {Token: "s3cret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			threeEmbedded(t, o)
		})
	}
}

func threeEmbedded(t *testing.T, o cluster.Options) {
	all := clustertest.Addresses(t, 3)
	var routes []string
	for _, a := range all {
		routes = append(routes, "nats://"+a)
	}
	opened := make(chan *cluster.Cluster, 3)
	var log buffer
	for i := range 3 {
		o := o
		o.Servers, o.Dir, o.Name, o.ClusterListen, o.Routes = cluster.Embedded, t.TempDir(), fmt.Sprint("r", i), all[i], routes
		if i == 0 {
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		}
		go func() {
			c, err := cluster.Open(t.Context(), o)
			if err != nil {
				t.Error(err)
			}
			opened <- c
		}()
	}
	var cs []*cluster.Cluster
	for range 3 {
		c := <-opened
		if c == nil {
			t.FailNow()
		}
		cs = append(cs, c)
		if conn, err := nats.Connect("nats://" + c.Server().NATS().Addr().String()); err == nil {
			conn.Close()
			t.Error("somebody else is let in")
		}
		if c.Copies() != 3 {
			t.Errorf("%d copies, want 3", c.Copies())
		}
	}
	// One goes, and what it has stored is there for the others.
	ctx := t.Context()
	config := jetstream.StreamConfig{Name: "X", Subjects: []string{cs[0].Subject("x", ">")}}
	if _, err := cs[0].Stream(ctx, config); err != nil {
		t.Fatal(err)
	}
	if _, err := cs[0].JetStream().Publish(ctx, cs[0].Subject("x", "a"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := cs[0].Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range cs[1:] {
		s, err := c.Stream(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		if n := s.CachedInfo().Config.Replicas; n != 3 {
			t.Errorf("without one of them the stream has %d copies", n)
		}
		clustertest.Eventually(t, "the one that leads now to know the message", func() bool {
			info, err := s.Info(ctx)
			return err == nil && info.State.Msgs == 1
		})
	}
	for _, c := range cs[1:] {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if strings.Contains(log.String(), "s3cret") {
		t.Error("the password is in the log: ", log.String())
	}
}

// TestAServerThatHasNotHeardOfTheLeasesYet is asked again by who joins.
func TestAServerThatHasNotHeardOfTheLeasesYet(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	c := s.Open(t)
	asked := make(chan struct{})
	whole := s.Divert("$JS.API.STREAM.INFO."+c.Name("TABLE", "leases"), func(*nats.Msg) *nats.Msg {
		select {
		case asked <- struct{}{}:
		case <-t.Context().Done():
		}
		return &nats.Msg{Data: []byte(`{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`)}
	})
	joined := make(chan error)
	go func() {
		_, err := storenats.Join(t.Context(), c)
		joined <- err
	}()
	for n := 0; ; n++ {
		select {
		case <-asked:
			if n == 3 { // it need not ask so often: the stream that it has made is enough
				whole()
			}
			continue
		case err := <-joined:
			if err != nil || n < 1 {
				t.Errorf("joined after %d answers, %v", n, err)
			}
		case <-time.After(time.Minute):
			t.Error("it has not joined")
		}
		return
	}
}
