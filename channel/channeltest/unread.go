package channeltest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// unread is a body that fails its test when it is read.
type unread struct{ t testing.TB }

func (b unread) Read([]byte) (int, error) {
	b.t.Error("the body was read")
	return 0, io.ErrUnexpectedEOF
}

// RefusesUnread fails the test unless door refuses a request with this header, and with a body of so many bytes, before it reads the body.
func RefusesUnread(t testing.TB, door http.Handler, header http.Header, length int64, status int) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", unread{t})
	r.Header, r.ContentLength = header, length
	w := httptest.NewRecorder()
	door.ServeHTTP(w, r)
	if w.Code != status {
		t.Errorf("a body of %d bytes with %v: %d, want %d", length, header, w.Code, status)
	}
}
