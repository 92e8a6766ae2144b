//go:build nightly && unix

package faults

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/longtest"
)

// FT-03: connecting and the handshake have a limit of their own, and so has the header; what comes after has none.
func TestAModelsServerThatNeverConnectsIsGivenUp(t *testing.T) {
	for name, listen := range map[string]func(t *testing.T) (address string){
		"it does not accept":          full,
		"it says nothing in response": mute,
	} {
		t.Run(name, func(t *testing.T) {
			scheme := "http://"
			if name != "it does not accept" {
				scheme = "https://" // the handshake is not answered
			}
			limits := adapter.Timeouts{Connect: 150 * time.Millisecond}
			p := start(t, setup{baseURL: scheme + listen(t), limits: limits, retries: adapter.Retries{Attempts: 2, Base: time.Millisecond}})
			for i, w := range providers {
				framing := framings[i%len(framings)]
				began := time.Now()
				a := p.ask(framing, `{"workflow":"text","input":"question","model":"`+w.model("m")+`"}`)
				took := time.Since(began)
				if took < 300*time.Millisecond {
					t.Errorf("two attempts took %v", took)
				}
				longtest.Within(t, "two attempts", took, 10*time.Second)
				if a.code() != "upstream_timeout" || !strings.Contains(a.says(), "could not connect") {
					t.Errorf("%v", a)
				}
				if framing == "application/json" && a.status != 504 {
					t.Errorf("%v", a)
				}
			}
		})
	}
}

// full returns the address of a server whose queue of connections is full, so that the system answers no more.
func full(t *testing.T) string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for missed := 0; missed < 3; missed++ { // one may only have come too late
		for n := 0; ; n++ {
			c, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
			if err != nil {
				break
			}
			t.Cleanup(func() { c.Close() })
			if missed = 0; n == 10 {
				t.Skip("this system accepts connections without end")
			}
		}
	}
	return address
}

// mute returns the address of a server that accepts connections and says nothing.
func mute(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepted atomic.Int64
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			defer c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-over
		if accepted.Load() == 0 {
			t.Error("nobody has come")
		}
	})
	return l.Addr().String()
}
