package wire

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
)

// Fallback is another way to write a request that a server has refused: without something that the adapter adds by itself, or with
// something that the server wants in a history (MO-04, MO-23). No fallback changes an option that the user has set.
type Fallback struct {
	Name    string   // in the log
	Applies bool     // the request can be written this way
	Words   []string // the refusal has one of them, in lower case; none means any refusal
	Status  int      // of the refusal; 0 means 400 or 422
}

// Asking is one request to a model, as often as it is written. It embeds [Fallbacks].
type Asking interface {
	// Write writes the request with the fallbacks in use.
	Write() ([]byte, error)
	// Others returns the other ways to write what was written last, for a refusal: its body and, without escapes, its message, in lower case.
	Others(said string) []Fallback
	// InUse returns what the request uses; embedded [Fallbacks] have it.
	InUse() *Fallbacks
}

// Fallbacks are the fallbacks that one request uses. They are forgotten with it: the next request is first written as usual. The zero
// value uses none.
type Fallbacks struct {
	Header http.Header // of the request as it was written last, beside that of its server; nil is nothing
	used   []string
}

// InUse returns f.
func (f *Fallbacks) InUse() *Fallbacks { return f }

// Others is for requests without fallbacks.
func (f *Fallbacks) Others(string) []Fallback { return nil }

// Uses reports whether the request is written with this fallback.
func (f *Fallbacks) Uses(name string) bool { return slices.Contains(f.used, name) }

// use adds the first fallback that fits a refusal and is not in use; name is "" if none does.
func (f *Fallbacks) use(r *Refusal, said string, all []Fallback) (name string) {
	for _, one := range all {
		named := len(one.Words) == 0 || slices.ContainsFunc(one.Words, func(word string) bool { return strings.Contains(said, word) })
		status := r.Status == one.Status || one.Status == 0 && (r.Status == http.StatusBadRequest || r.Status == http.StatusUnprocessableEntity)
		if one.Applies && named && status && !f.Uses(one.Name) {
			f.used = append(f.used, one.Name)
			return one.Name
		}
	}
	return ""
}

// Ask posts a request, and returns the answer once it has the status 200. After a refusal, Ask adds a fallback that fits it, and posts what
// is written then. Each fallback is tried once, so Ask ends.
func (s *Server) Ask(ctx context.Context, url string, a Asking) (*http.Response, error) {
	var last *Refusal
	for f := a.InUse(); ; {
		body, err := a.Write()
		if _, ours := err.(*adapter.Error); ours {
			return nil, err
		}
		if err != nil {
			return nil, &adapter.Error{
				Code: adapter.CodeInvalid, Message: "the request to the model cannot be written: a schema is not JSON",
				Cause: adapter.RedactError(err, s.Key()),
			}
		}
		header := Accept(cmp.Or(s.Accept, "text/event-stream"))
		maps.Copy(header, f.Header)
		res, refusal, err := s.Post(ctx, url, header, body)
		if err != nil {
			return nil, err
		}
		if refusal == nil {
			if last != nil {
				adapter.LogFallback(ctx, strings.Join(f.used, ", "), s.Redact(last.Body))
			}
			return res, nil
		}
		said := strings.ToLower(string(refusal.Body) + "\n" + ReadReport(refusal.Body).Message)
		if f.use(refusal, said, a.Others(said)) == "" {
			return nil, s.Refused(refusal)
		}
		last = refusal
	}
}
