// Command sizes says what a server needs for its streams: memory, files and processor time for each. The server is a process of its own,
// started with the scripted model, so nothing but the server is measured; a model behind a connection adds that connection, which
// bench/relay measures.
//
//	go run ./bench/sizes [-streams 1000] [-pace 20] [-workflow chat] [-seconds 10] [-tls] [-lingserve BINARY]
//
// It reads /proc, so it runs on Linux.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/internal/program"
)

func main() {
	streams := flag.Int("streams", 1000, "streams at once")
	pace := flag.Float64("pace", 20, "tokens a second of each; 0.01 is an idle one")
	seconds := flag.Int("seconds", 10, "how long to look")
	encrypted := flag.Bool("tls", false, "over TLS, with HTTP/1.1")
	workflow := flag.String("workflow", "chat", "`name` of a shipped workflow: chat has one bot, encyclopedia several")
	binary := flag.String("lingserve", "", "the server's binary; default: built from ./cmd/server")
	flag.Parse()
	if err := measure(*binary, *workflow, *streams, *pace, time.Duration(*seconds)*time.Second, *encrypted); err != nil {
		fmt.Fprintln(os.Stderr, "sizes:", err)
		os.Exit(1)
	}
}

func measure(binary, workflow string, streams int, pace float64, took time.Duration, encrypted bool) error {
	dir, err := os.MkdirTemp("", "sizes")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	built := program.Binary{Given: binary}
	defer built.Close()
	path, err := built.Path(context.Background())
	if err != nil {
		return err
	}
	args := []string{
		"--data", filepath.Join(dir, "data"), "--config", "", "--demo-pace", fmt.Sprint(pace), "--grace", "0s",
		"--limit-requests", "0", "--limit-runs", "0", "--upstream-first-token", "0s", "--upstream-idle", "0s", "--upstream-total", "0s",
	}
	scheme := "http"
	if encrypted {
		scheme = "https"
		if err := selfSigned(dir); err != nil {
			return err
		}
		args = append(args, "--tls-cert", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key"))
	}
	server, err := program.Start(context.Background(), path, dir, &program.Options{Args: args})
	if err != nil {
		return err
	}
	defer server.Kill()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxConnsPerHost: 0, DisableKeepAlives: true,
	}}
	idle, err := look(server.Pid())
	if err != nil {
		return fmt.Errorf("%w; the server says\n%s", err, server.Log.Tail())
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg, begun sync.WaitGroup
	var tokens, broken atomic.Int64
	slots := make(chan struct{}, 50) // who are connecting at once
	for range streams {
		begun.Add(1)
		wg.Go(func() {
			slots <- struct{}{}
			first := sync.OnceFunc(func() { begun.Done(); <-slots })
			defer first()
			if err := follow(ctx, client, server.URL+"/v1/runs?workflow="+workflow, first, &tokens); err != nil && ctx.Err() == nil {
				broken.Add(1)
			}
		})
	}
	begun.Wait()
	time.Sleep(2 * time.Second)
	before, err := look(server.Pid())
	if err != nil {
		return err
	}
	n := tokens.Load()
	time.Sleep(took)
	after, err := look(server.Pid())
	if err != nil {
		return err
	}
	n = tokens.Load() - n
	cancel()
	wg.Wait()

	fmt.Printf("%s: %d streams at %g tokens/s, %s; %d broken\n", workflow, streams, pace, scheme, broken.Load())
	fmt.Printf("idle server        %6.1f MB, %d files\n", float64(idle.rss)/1e6, idle.files)
	fmt.Printf("with the streams   %6.1f MB, %d files\n", float64(after.rss)/1e6, after.files)
	fmt.Printf("each stream        %6.1f KB, %.2f files\n", float64(after.rss-idle.rss)/1e3/float64(streams), float64(after.files-idle.files)/float64(streams))
	fmt.Printf("processor          %6.1f %% of one, %.0f events/s", (after.cpu-before.cpu).Seconds()/took.Seconds()*100, float64(n)/took.Seconds())
	if n > 0 {
		fmt.Printf(", %.1f µs an event", float64((after.cpu-before.cpu).Microseconds())/float64(n))
	}
	fmt.Println()
	return nil
}

// follow starts a run and reads its events until ctx ends; then starts the next one.
func follow(ctx context.Context, client *http.Client, start string, first func(), tokens *atomic.Int64) error {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, start+"&input=Why+is+the+sky+blue%3F&format=sse&on_disconnect=cancel", http.NoBody)
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(io.LimitReader(res.Body, 500))
			res.Body.Close()
			return fmt.Errorf("%s: %s", res.Status, text)
		}
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "id:") {
				first()
				tokens.Add(1)
			}
		}
		res.Body.Close()
	}
	return nil
}

// usage is what a process has.
type usage struct {
	rss   int64
	files int
	cpu   time.Duration
}

func look(pid int) (u usage, err error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return u, err
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // the name may have blanks
	f := strings.Fields(string(rest))
	if len(f) < 22 {
		return u, errors.New("what /proc says of the process is not understood")
	}
	utime, _ := strconv.ParseInt(f[11], 10, 64)
	stime, _ := strconv.ParseInt(f[12], 10, 64)
	pages, _ := strconv.ParseInt(f[21], 10, 64)
	u.cpu = time.Duration(utime+stime) * 10 * time.Millisecond // a tick, everywhere
	u.rss = pages * int64(os.Getpagesize())
	entries, err := os.ReadDir(filepath.Join(proc, "fd"))
	u.files = len(entries)
	return u, err
}

// selfSigned writes a certificate for this machine.
func selfSigned(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}
