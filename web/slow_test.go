package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/run"
)

// dial opens a connection to a server behind connections in memory.
func (b *bench) dial() net.Conn {
	b.t.Helper()
	conn, err := b.http.Transport.(*http.Transport).DialContext(context.Background(), "tcp", "")
	if err != nil {
		b.t.Fatal(err)
	}
	return conn
}

// SE-14, SE-18: a client that takes its time has only so much of it, whatever it is slow at, and holds up nobody else.
func TestASlowClientHasOnlySoMuchTime(t *testing.T) {
	const get = "GET /healthz HTTP/1.1\r\nHost: x\r\n"
	for _, row := range []struct {
		name string
		send func(net.Conn) error
		most time.Duration
	}{
		{"says nothing", func(net.Conn) error { return nil }, headerTimeout},
		{"says half of a line", func(c net.Conn) error { _, err := io.WriteString(c, "GET /hea"); return err }, headerTimeout},
		{"says its headers byte by byte", trickle("", get+strings.Repeat("X-A: b\r\n", 100)+"\r\n"), headerTimeout},
		{"never ends its headers", func(c net.Conn) error {
			_, err := io.WriteString(c, get)
			for err == nil {
				time.Sleep(time.Second)
				_, err = io.WriteString(c, "X-A: b\r\n")
			}
			return err
		}, headerTimeout},
		{"begins with HTTP/2 byte by byte", trickle("", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+strings.Repeat("\x00", 1000)), headerTimeout},
		{"says its body byte by byte", trickle("POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n", strings.Repeat(" ", 1000)), bodyTimeout},
		{"says the body of what is not there byte by byte", trickle("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", strings.Repeat(" ", 1000)), bodyTimeout},
		{"asks for something and then for nothing more", func(c net.Conn) error { _, err := io.WriteString(c, get+"\r\n"); return err }, idleTimeout},
		{"asks once more byte by byte", trickle(get+"\r\n", strings.Repeat(get, 20)), headerTimeout + 4*time.Second}, // what is not a request yet is silence
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil).servePipes()
				defer b.down()
				slow := b.dial()
				began := time.Now()
				var sent sync.WaitGroup
				defer sent.Wait()
				defer slow.Close()
				sent.Go(func() { _ = row.send(slow) })
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _ = io.Copy(io.Discard, slow)
				}()
				time.Sleep(5 * time.Second)
				if resp := b.do("GET", "/healthz", ""); resp.StatusCode != 200 {
					t.Errorf("another client is answered %d", resp.StatusCode)
				}
				select {
				case <-ended:
				case <-time.After(10 * time.Minute):
					t.Fatal("it is still there")
				}
				if took := time.Since(began); took > row.most+2*time.Second {
					t.Errorf("it had %v", took)
				}
			})
		})
	}
}

// trickle sends the beginning at once, and the rest a byte a second.
func trickle(head, rest string) func(net.Conn) error {
	return func(c net.Conn) error {
		if _, err := io.WriteString(c, head); err != nil {
			return err
		}
		for i := range len(rest) {
			if _, err := io.WriteString(c, rest[i:i+1]); err != nil {
				return err
			}
			time.Sleep(time.Second)
		}
		return nil
	}
}

// SE-14: who asks for much and takes none of it is dropped, whatever it has asked for.
func TestAClientThatTakesNoAnswerIsDropped(t *testing.T) {
	for _, path := range []string{"/openapi.yaml", "/", "/v1/workflows/chat", "/v1/runs?workflow=chat&input=x&format=sse", "/v1/runs?workflow=chat&input=x"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil).servePipes()
				defer b.down()
				slow := b.dial()
				defer slow.Close()
				if _, err := io.WriteString(slow, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				line, err := bufio.NewReaderSize(slow, 16).ReadString('\n') // it takes the first bytes, and then none
				if err != nil || !strings.HasPrefix(line, "HTTP/1.1 200") {
					t.Fatalf("%q, %v", line, err)
				}
				time.Sleep(b.s.o.WriteTimeout + idleTimeout + time.Second)
				_ = slow.SetDeadline(time.Now().Add(time.Second))
				// A pipe holds nothing back: what the server could not write is gone, and so is the server's end.
				if _, err := io.ReadAll(slow); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("the connection is still there")
				}
			})
		})
	}
}

// FT-19: who takes the end of an answer slowly is not gone, and has an answer to what it asks next by the same connection.
func TestWhoTakesTheEndOfAnAnswerSlowlyIsAnsweredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil).servePipes()
		defer b.down()
		slow := b.dial()
		defer slow.Close()
		answers := bufio.NewReader(slow)
		for range 3 {
			if _, err := fmt.Fprintf(slow, "POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(askChat), askChat); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second) // all of the answer waits to be taken
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := readDocument(t, resp); d.Status != run.StatusCompleted {
				t.Errorf("%+v", d)
			}
		}
	})
}
