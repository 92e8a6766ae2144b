//go:build unix

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/lingserve/lingserve/cluster"
)

// variable tells a process to be a NATS server, and which one.
const variable = "LINGSERVE_FLEET_NODE"

// ready is what a server says when it takes connections.
const ready = "ready"

// Main is called first by a program that runs a fleet, by the TestMain of tests. In a process that is to be a NATS server it does not
// return.
func Main() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// settings are those of a NATS server, as they go into its environment.
type settings struct {
	Name, Dir, Listen, ClusterListen, Token string
	Routes                                  []string
}

// serve is a NATS server until it is told to end, or until the process that has started it is not there any more.
func serve(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	server, err := cluster.StartServer(cluster.Options{
		Name: s.Name, Dir: s.Dir, Listen: s.Listen, ClusterListen: s.ClusterListen, Routes: s.Routes, Token: s.Token,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	fmt.Println(ready)
	orphaned := make(chan error, 1)
	go func() { // ends with the process
		_, err := io.Copy(io.Discard, os.Stdin)
		orphaned <- err
	}()
	select {
	case <-ctx.Done():
	case err = <-orphaned:
	}
	return errors.Join(err, server.Stop())
}
