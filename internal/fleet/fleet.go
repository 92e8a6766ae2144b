//go:build unix

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Options say what a fleet is made of.
type Options struct {
	// Program is the path of the server's program.
	Program string
	// Dir is a folder for all data, which is there.
	Dir string
	// Database is the URL of a PostgreSQL server that runs, which the replicas share. Without it there is one replica.
	Database string
	// Replicas is how many there are.
	Replicas int
	// Args and Env are more settings of each replica.
	Args, Env []string
	// Network has a namespace for each process, from [NewNetwork]; without one all are on loopback. It is closed with the fleet.
	Network *Network
}

// Fleet is what runs.
type Fleet struct {
	Replicas []*Replica

	network *Network
}

// New prepares a fleet. Nothing of it runs before [Fleet.Start].
func New(o Options) (*Fleet, error) {
	switch {
	case o.Database == "" && o.Replicas > 1:
		return nil, fmt.Errorf("fleet: %d replicas without a database; expected one", o.Replicas)
	case o.Replicas < 1:
		return nil, errors.New("fleet: no replicas")
	}
	f := &Fleet{network: o.Network}
	return f, f.addReplicas(o)
}

func (f *Fleet) addReplicas(o Options) error {
	workspace := filepath.Join(o.Dir, "workspace") // the same for all: sessions belong to it
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return err
	}
	for i := range o.Replicas {
		r := &Replica{Name: fmt.Sprint("r", i+1), path: o.Program, env: o.Env}
		r.dir = filepath.Join(o.Dir, r.Name)
		if err := os.MkdirAll(r.dir, 0o700); err != nil {
			return err
		}
		var address string
		if o.Network == nil {
			one, err := Addresses(1)
			if err != nil {
				return err
			}
			address = one[0]
		} else {
			host, enter, err := o.Network.Add(r.Name)
			if err != nil {
				return err
			}
			address, r.by = host+":8080", enter
			r.args = append(r.args, "--insecure")
		}
		r.URL = "http://" + address
		r.args = append(r.args, "--addr", address, "--workspace", workspace)
		if o.Database != "" {
			r.args = append(r.args, "--database", o.Database)
		}
		r.args = append(r.args, o.Args...)
		f.Replicas = append(f.Replicas, r)
	}
	return nil
}

// Start starts the replicas and returns when all take requests.
func (f *Fleet) Start(ctx context.Context) error {
	return together(f.Replicas, func(r *Replica) error { return r.Start(ctx) })
}

// together calls do for all replicas at the same time.
func together(list []*Replica, do func(*Replica) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(list))
	for i, one := range list {
		wg.Go(func() { errs[i] = do(one) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close ends all. It may be called more than once.
func (f *Fleet) Close() error {
	err := together(f.Replicas, func(r *Replica) error { r.Kill(); return nil })
	if f.network != nil {
		err = errors.Join(err, f.network.Close())
	}
	return err
}
