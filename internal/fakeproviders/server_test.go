package fakeproviders

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ask posts a request through the server's transport and returns the response.
func ask(t testing.TB, ctx context.Context, s *Server, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestTokensKeepTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := make([]string, 500)
		for i := range tokens {
			tokens[i] = "x"
		}
		s := &Server{Script: func(Request) Answer { return Answer{Tokens: tokens, Pace: 50, Delay: time.Second} }}
		defer s.Close()
		began := time.Now()
		res := ask(t, t.Context(), s, `{"model":"m","stream":true}`)
		defer res.Body.Close()
		if d := time.Since(began); d != time.Second {
			t.Errorf("header after %v", d)
		}
		lines := bufio.NewScanner(res.Body)
		for n := 0; lines.Scan(); {
			if !strings.Contains(lines.Text(), `"content":"x"`) {
				continue
			}
			if at, want := time.Since(began), time.Second+time.Duration(n)*20*time.Millisecond; at != want {
				t.Fatalf("token %d after %v, want %v", n, at, want)
			}
			n++
		}
		if d := time.Since(began); d != 11*time.Second {
			t.Errorf("end after %v", d)
		}
	})
}

// A token's way from the script to the client's buffer, with a flush for each, as a paced answer has it.
func BenchmarkPacedToken(b *testing.B) {
	s := &Server{Script: func(Request) Answer { return Answer{Tokens: make([]string, b.N), Pace: 1e12} }}
	defer s.Close()
	b.ReportAllocs()
	res := ask(b, b.Context(), s, `{"model":"m","stream":true}`)
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
}

func BenchmarkFastToken(b *testing.B) {
	s := &Server{Script: func(Request) Answer { return Answer{Tokens: make([]string, b.N)} }}
	defer s.Close()
	b.ReportAllocs()
	res := ask(b, b.Context(), s, `{"model":"m","stream":true}`)
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
}
