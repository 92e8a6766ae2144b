//go:build unix

// Command clusterup runs a whole installation on this machine, to try it out: a PostgreSQL server, three replicas of the program and,
// if haproxy is installed, a load balancer in front of them, each a process of its own. It prints what can be done with them, starts killed
// replicas again, and ends all of them with ctrl-C. The model is the built-in one, unless the environment names another.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lingserve/lingserve/internal/fleet"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/internal/program"
)

func main() {
	var o options
	flag.StringVar(&o.program, "program", "", "the server's program; where none is named it is built")
	flag.StringVar(&o.addr, "addr", "127.0.0.1:8080", "where the load balancer listens")
	flag.StringVar(&o.dir, "dir", "", "a folder for the files of the replicas, which is kept; the default is a temporary one")
	flag.IntVar(&o.replicas, "replicas", 3, "how many replicas there are")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "clusterup [flags] [-- settings of each replica, as lingserve serve has them, with whole paths]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // which a terminal sends that is closed
	err := run(ctx, o, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clusterup:", err)
		os.Exit(1)
	}
}

type options struct {
	program, addr, dir string
	replicas           int
}

// passed are variables of the environment that the replicas get, so that a model of one's own answers.
var passed = []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLAMA_HOST", "LINGSERVE_MODEL"}

// run runs it all until ctx ends. More arguments are settings of each replica.
func run(ctx context.Context, o options, more []string) (err error) {
	if err := fleet.Free(ctx, o.addr); err != nil { // before anything is built or started
		return fmt.Errorf("%w (-addr 127.0.0.1:8081 is another one; make cluster ADDR=127.0.0.1:8081, too)", err)
	}
	binary := program.Binary{Given: o.program}
	defer func() { err = errors.Join(err, binary.Close()) }()
	path, err := binary.Path(ctx)
	if err != nil {
		return err
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "lingserve-cluster-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	}
	var env []string
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	fmt.Println("Starting PostgreSQL and", o.replicas, "replicas …")
	database, err := postgrestest.Start()
	if err != nil {
		if ctx.Err() != nil {
			return nil // somebody has changed their mind
		}
		return err
	}
	defer func() { err = errors.Join(err, database.Stop()) }()
	f, err := fleet.New(fleet.Options{
		Program: path, Dir: o.dir, Database: database.URL(), Replicas: o.replicas, Env: env,
		Args: append([]string{"--demo-pace", "10", "--grace", "5s", "--inline-workflows"}, more...),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // somebody has changed their mind
		}
		return err
	}
	b, err := f.Balance(ctx, o.dir, o.addr)
	switch {
	case errors.Is(err, fleet.ErrNoBalancer):
		fmt.Printf("There is no load balancer in front: %v. The replicas are there by themselves.\n", err)
		err = nil
	case err != nil:
		return err
	default:
		defer b.Close()
	}
	fmt.Print(explain(f, b, database.URL(), o.dir))
	watch(ctx, f)
	fmt.Println("\nStopping …")
	for _, r := range f.Replicas { // one after the other, as in a rolling restart
		if r.Up() { // how it ended that was killed is known to whoever did that
			err = errors.Join(err, r.Stop())
		}
	}
	return err
}

// explain is how it is tried out.
func explain(f *fleet.Fleet, b *fleet.Balancer, database, dir string) string {
	var t strings.Builder
	fmt.Fprintf(&t, "\n  database        %s\n  files           %s\n  logs            %s\n", database, dir, filepath.Join(dir, "*", "log"))
	for _, r := range f.Replicas {
		fmt.Fprintf(&t, "  replica %s      %s   process %d\n", r.Name, r.URL, r.Pid())
	}
	first, second := f.Replicas[0], f.Replicas[len(f.Replicas)-1]
	front := second.URL // since the first is one that may have been killed
	if b != nil {
		fmt.Fprintf(&t, "  load balancer   %s   %s\n", b.URL, b.Config)
		front = b.URL
	}
	fmt.Fprintf(&t, `
Begin a run at one replica, and follow it at another:

  RUN=$(curl -s --json '{"agent":"assistant","session":"try","input":"Why is the sky blue?"}' -H 'Prefer: respond-async' \
        %[1]s/v1/runs | sed 's/.*"run":"\([^"]*\)".*/\1/')
  curl -N "%[2]s/v1/runs/$RUN/events?format=jsonl"

Cancel it at one that does not run it:

  curl -X POST %[2]s/v1/runs/$RUN/cancel

Kill the one that runs it, while the other is followed: the stream breaks off. Follow it again: within about 7 s
the reader gets the rest, from another replica, which writes the reply again. A killed replica is started again after %[5]s.

  kill -9 %[3]d

The same with a workflow: bots that had ended do not run again.

  RUN=$(curl -s --json '{"workflow":{"bots":{"one":{"message":"Why is the sky blue?","format":"text","root":"answer"}}},
        "input":{}}' -H 'Prefer: respond-async' %[1]s/v1/runs | sed 's/.*"run":"\([^"]*\)".*/\1/')
  curl -N "%[2]s/v1/runs/$RUN/events?format=jsonl"

The session is known everywhere, with all that was said:

  curl '%[4]s/v1/sessions/try/tape?format=jsonl'
`, first.URL, second.URL, first.Pid(), front, again)
	if b != nil {
		fmt.Fprintf(&t, `
Through the balancer nobody notices which replica answers; the page is at %[1]s/

  curl -N --json '{"agent":"assistant","input":"Why is the sky blue?"}' "%[1]s/v1/runs?format=jsonl"
`, b.URL)
	}
	t.WriteString("\nCtrl-C ends all.\n")
	return t.String()
}
