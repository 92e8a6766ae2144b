package adapter

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// FT-31: what is not read of an answer does not come in all the same, also over HTTP/2, whose windows are held in memory.
func TestAnAnswerThatIsNotReadDoesNotComeIn(t *testing.T) {
	var sent atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for piece := make([]byte, 16<<10); ; {
			n, err := w.Write(piece)
			if sent.Add(int64(n)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	tr := newTransport(TransportOptions{})
	tr.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Fatal(resp.Proto)
	}
	if _, err := io.CopyN(io.Discard, resp.Body, 64<<10); err != nil {
		t.Fatal(err)
	}
	// Sent until the window is full: then the number stays.
	before := int64(-1)
	for deadline := time.Now().Add(10 * time.Second); sent.Load() != before; {
		if before = sent.Load(); before > 2<<20 || time.Now().After(deadline) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if n := sent.Load(); n > 1<<20 {
		t.Errorf("%d bytes have come in", n)
	}
}
