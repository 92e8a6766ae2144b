package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/disk"
	"github.com/lingserve/lingserve/internal/mediapart"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/request"
)

// FileStore stores what callers have uploaded and what models have made. Errors: [store.ErrNotFound], and those of the store.
type FileStore interface {
	// Add stores a file, whole or not at all.
	Add(ctx context.Context, f store.File, data []byte) error
	// Find finds a file of an owner that has not expired, and Read returns what is in it.
	Find(ctx context.Context, owner, id string) (store.File, error)
	Read(ctx context.Context, f store.File) ([]byte, error)
	// Held returns how many files an owner has, and their size in bytes.
	Held(ctx context.Context, owner string) (count int, size int64, err error)
	// Remove erases a file of an owner.
	Remove(ctx context.Context, owner, id string) error
}

// Files bound uploaded files; zero is the default of a member.
type Files struct {
	MaxSize   int64         `key:"max_size" default:"16MiB" min:"1KiB" help:"maximum size of an upload or a model's image or sound; at most half of limit.bodies"`
	MaxCount  int           `key:"max_count" default:"1000" min:"1" help:"files of a caller"`
	MaxBytes  int64         `key:"max_bytes" default:"256MiB" min:"1KiB" help:"bytes of a caller's files"`
	Retention time.Duration `key:"retention" default:"168h" min:"1ms" help:"how long a file is kept"`
	Types     []string      `key:"types" default:"image,pdf,audio,text" oneof:"image pdf audio text file" help:"allowed uploads; file is any other"`
}

func (f Files) withDefaults() Files {
	f.MaxSize = cmp.Or(f.MaxSize, 16<<20)
	f.MaxCount = cmp.Or(f.MaxCount, 1000)
	f.MaxBytes = cmp.Or(f.MaxBytes, 256<<20)
	f.Retention = cmp.Or(f.Retention, 7*24*time.Hour)
	if f.Types == nil {
		f.Types = []string{adapter.KindImage, adapter.KindPDF, adapter.KindAudio, "text"}
	}
	return f
}

const (
	filesPath = "/v1/files"
	// filesTimeout bounds the reading and writing of one.
	filesTimeout = 30 * time.Second
	// uploadTimeout is how long a client may take to send a file.
	uploadTimeout = 2 * time.Minute
	// uploadBeside is what a form has beside the file in it, in bytes.
	uploadBeside = 64 << 10

	limitFiles = "limit_files"
)

// upload describes a file. The members are OpenAI's, and behind them ours.
type upload struct {
	ID        string `json:"id"`
	Object    string `json:"object"`  // "file"
	Purpose   string `json:"purpose"` // always "user_data"
	Status    string `json:"status"`  // "processed"
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt int64  `json:"expires_at"`
	Filename  string `json:"filename"`
	Type      string `json:"type"` // "image/png"
	SHA256    string `json:"sha256"`
}

// uploadOf describes a file as clients see it.
func uploadOf(f store.File) upload {
	return upload{
		ID: f.ID, Object: "file", Purpose: "user_data", Status: "processed", Bytes: f.Size, CreatedAt: f.Created.Unix(), ExpiresAt: f.Expires.Unix(),
		Filename: f.Name, Type: f.Type, SHA256: f.SHA256,
	}
}

// unknownFile is the answer to a caller who has no such file.
const unknownFile = "unknown file; it never existed, has expired, or belongs to another caller"

// isUnknownFile reports whether there is no such file, or it was erased meanwhile.
func isUnknownFile(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, tape.ErrNotFound)
}

// keepFile stores a file for its owner. ctx ends with what asks for it.
func (s *Server) keepFile(ctx context.Context, owner, name, kind string, data []byte) (upload, error) {
	ctx, cancel := context.WithTimeout(ctx, filesTimeout)
	defer cancel()
	now := time.Now()
	sum := sha256.Sum256(data)
	f := store.File{
		ID: "file_" + run.NewID(), Owner: owner, Name: name, Type: kind, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:]),
		Created: now, Expires: now.Add(s.o.Files.Retention),
	}
	return uploadOf(f), s.o.FileStore.Add(ctx, f, data)
}

// fileProblem is the answer to an error with a file.
func (s *Server) fileProblem(ctx context.Context, err error) *wire.Problem {
	switch {
	case isUnknownFile(err):
		return wire.NewProblem(wire.CodeNotFound, unknownFile)
	case errors.Is(err, tape.ErrTooLarge):
		return wire.NewProblem(wire.CodeTooLarge, "the server has no space for a file of this size")
	case disk.Failed(err):
		s.shed.DiskFailed()
		return limited(wire.CodeOverloaded, run.LimitDisk, "the server's disk is full or has failed, so it cannot store or read files; retry later", run.DiskRetry)
	case run.IsOverloaded(err), errors.Is(err, context.DeadlineExceeded):
		return limited(wire.CodeOverloaded, "", "the server cannot reach the files at the moment; retry later", run.TapesRetry)
	}
	return s.wire.Problem(ctx, err)
}

// roomForFile refuses a file beyond what a caller may keep. What two uploads at once add is counted by the next one.
func (s *Server) roomForFile(ctx context.Context, owner string, size int64) *wire.Problem {
	if s.shed.LowDisk() || s.shed.DiskBroken() {
		return limited(wire.CodeOverloaded, run.LimitDisk, "the server's disk is nearly full or has failed, so it accepts no files; retry later", run.DiskRetry)
	}
	count, held, err := s.o.FileStore.Held(ctx, owner)
	if err != nil {
		return s.fileProblem(ctx, err)
	}
	full := ""
	switch {
	case count >= s.o.Files.MaxCount:
		full = "you have " + wording.Plural(int64(count), "file")
	case held+size > s.o.Files.MaxBytes:
		full = "your files would exceed " + wording.Plural(s.o.Files.MaxBytes, "byte")
	default:
		return nil
	}
	full += ", the limit of one caller; delete some with DELETE /v1/files/{id}"
	return limited(wire.CodeRateLimited, limitFiles, full, run.SessionsRetry)
}

// keepsFiles lets requests through on a server that keeps files.
func (s *Server) keepsFiles(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		if s.o.FileStore == nil {
			return wire.NewProblem(wire.CodeNotFound, "files are not configured on this server")
		}
		return h(w, r)
	}
}

// postFile stores an uploaded file: the field file of a form, or the body itself with its name in the query.
func (s *Server) postFile(w http.ResponseWriter, r *http.Request) *wire.Problem {
	var query struct {
		Filename string `field:"filename"`
	}
	if p := wire.Query(r, &query); p != nil {
		return p
	}
	limit := s.o.Files.MaxSize + uploadBeside
	if s.shed.LowMemory() {
		return littleMemory("the server is close to its memory limit and starts no new runs; retry later")
	}
	body, p := s.readUpTo(w, r, limit, uploadTimeout)
	if p != nil {
		return p
	}
	f, p := s.receiveFile(r, query.Filename, body)
	if p != nil {
		return p
	}
	w.Header().Set("Location", filesPath+"/"+f.ID)
	s.wire.SendJSON(w, r, http.StatusCreated, f)
	return nil
}

// receiveFile stores the file of a request.
func (s *Server) receiveFile(r *http.Request, name string, data []byte) (upload, *wire.Problem) {
	claimed, params, err := mime.ParseMediaType(cmp.Or(r.Header.Get("Content-Type"), "application/octet-stream"))
	if err != nil {
		return upload{}, wire.Invalid(run.Field{Header: "Content-Type", Detail: "expected a media type, found " + wording.Clip(r.Header.Get("Content-Type"))})
	}
	if claimed == "multipart/form-data" {
		var p *wire.Problem
		if name, claimed, data, p = fileOfForm(data, params["boundary"]); p != nil {
			return upload{}, p
		}
	}
	if name = path.Base(strings.ReplaceAll(name, `\`, "/")); name == "." || name == "/" {
		name = "file"
	}
	switch {
	case len(name) > request.MaxName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }):
		return upload{}, wire.Invalid(run.Field{Parameter: "filename", Detail: fmt.Sprintf("expected 1 to %d bytes of text without control characters", request.MaxName)})
	case len(data) == 0:
		return upload{}, wire.Invalid(run.Field{Detail: "the file is empty"})
	case int64(len(data)) > s.o.Files.MaxSize:
		detail := "the file is larger than " + wording.Plural(s.o.Files.MaxSize, "byte") + "; the operator can raise files.max_size"
		return upload{}, limited(wire.CodeTooLarge, limitBody, detail, 0)
	}
	if byName, _, _ := mime.ParseMediaType(mime.TypeByExtension(path.Ext(name))); claimed == "application/octet-stream" && byName != "" {
		claimed = byName
	}
	kind := adapter.SniffMedia(data, claimed)
	if !slices.Contains(s.o.Files.Types, adapter.MediaKind(kind)) {
		p := wire.NewProblem(wire.CodeInvalid, "the file is of the type "+kind+"; this server takes "+strings.Join(s.o.Files.Types, ", "))
		p.Status = http.StatusUnsupportedMediaType
		return upload{}, p
	}
	owner := wire.Who(r).Owner()
	if p := s.roomForFile(r.Context(), owner, int64(len(data))); p != nil {
		return upload{}, p
	}
	f, err := s.keepFile(r.Context(), owner, name, kind, data)
	if err != nil {
		return upload{}, s.fileProblem(r.Context(), err)
	}
	return f, nil
}

// fileOfForm finds the file in a form. Other fields, such as the purpose that OpenAI's clients send, have no effect.
func fileOfForm(body []byte, boundary string) (name, kind string, data []byte, p *wire.Problem) {
	form := multipart.NewReader(bytes.NewReader(body), boundary)
	part, err := form.NextRawPart()
	for err == nil && part.FormName() != "file" {
		part, err = form.NextRawPart()
	}
	if errors.Is(err, io.EOF) {
		return "", "", nil, wire.Invalid(run.Field{Detail: "expected a form with the file in the field file"})
	}
	if err == nil {
		data, err = io.ReadAll(part)
	}
	if err != nil {
		return "", "", nil, wire.Invalid(run.Field{Detail: "the form is incomplete; send it again"})
	}
	if kind, _, err = mime.ParseMediaType(part.Header.Get("Content-Type")); err != nil {
		kind = "application/octet-stream"
	}
	return part.FileName(), kind, data, nil
}

// getFile describes a file.
func (s *Server) getFile(w http.ResponseWriter, r *http.Request) *wire.Problem {
	f, err := s.o.FileStore.Find(r.Context(), wire.Who(r).Owner(), wire.PathValue(r, "id"))
	if err != nil {
		return s.fileProblem(r.Context(), err)
	}
	s.wire.SendJSON(w, r, http.StatusOK, uploadOf(f))
	return nil
}

// getFileContent sends what is in a file. A browser does nothing with it but to show pictures and play sounds: it is a stranger's.
func (s *Server) getFileContent(w http.ResponseWriter, r *http.Request) *wire.Problem {
	f, err := s.o.FileStore.Find(r.Context(), wire.Who(r).Owner(), wire.PathValue(r, "id"))
	if err != nil {
		return s.fileProblem(r.Context(), err)
	}
	release, ok := s.o.Ledger.Hold(f.Size)
	if !ok {
		return littleMemory("the server has no memory for this file now; retry later")
	}
	defer release()
	data, err := s.o.FileStore.Read(r.Context(), f)
	if err != nil {
		return s.fileProblem(r.Context(), err)
	}
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private, max-age=3600, immutable")
	shown := "attachment"
	if kind := adapter.MediaKind(f.Type); kind == adapter.KindImage || kind == adapter.KindAudio {
		shown = "inline"
	}
	h.Set("Content-Disposition", mime.FormatMediaType(shown, map[string]string{"filename": f.Name}))
	s.wire.Send(w, r, http.StatusOK, f.Type, data)
	return nil
}

// deleteFile erases a file.
func (s *Server) deleteFile(w http.ResponseWriter, r *http.Request) *wire.Problem {
	id := wire.PathValue(r, "id")
	if err := s.o.FileStore.Remove(r.Context(), wire.Who(r).Owner(), id); err != nil {
		return s.fileProblem(r.Context(), err)
	}
	s.wire.SendJSON(w, r, http.StatusOK, map[string]any{"id": id, "object": "file", "deleted": true})
	return nil
}

// runFiles are the files of the server for its runs.
type runFiles struct{ s *Server }

// Open implements [run.Files]. The list that it returns is a new one.
func (f runFiles) Open(who access.Principal, at string, list []adapter.Part) ([]adapter.Part, error) {
	if len(list) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(f.s.ctx, filesTimeout)
	defer cancel()
	opened := slices.Clone(list)
	for i := range opened {
		if mediapart.Ref(&opened[i]) == "" {
			continue
		}
		if p := f.s.openFile(ctx, who, at+"/"+strconv.Itoa(i), &opened[i]); p != nil {
			return nil, p.AsError()
		}
	}
	return opened, nil
}

// openFile replaces the id of an uploaded file by its data. at is the part's place in the request.
func (s *Server) openFile(ctx context.Context, who access.Principal, at string, part *adapter.Part) *wire.Problem {
	var f store.File
	var data []byte
	err := store.ErrNotFound
	if s.o.FileStore != nil {
		f, err = s.o.FileStore.Find(ctx, who.Owner(), mediapart.Ref(part))
	}
	if err == nil {
		data, err = s.o.FileStore.Read(ctx, f)
	}
	if isUnknownFile(err) {
		return wire.Invalid(run.Field{Pointer: at, Detail: unknownFile})
	}
	if err != nil {
		return s.fileProblem(ctx, err)
	}
	url, kind := adapter.DataURL(f.Type, data), adapter.MediaKind(f.Type)
	switch {
	case kind == adapter.KindImage:
		*part = adapter.Part{Type: "image_url", Image: url}
	case part.Image != "":
		return wire.Invalid(run.Field{Pointer: at, Detail: "expected an image, found a file of the type " + f.Type})
	default:
		*part = adapter.Part{Type: "file", File: url, Name: cmp.Or(part.Name, f.Name)}
	}
	if kind == "text" && len(data) > s.shed.o.Input {
		p := limited(wire.CodeTooLarge, run.LimitInput, "expected at most "+wording.Plural(int64(s.shed.o.Input), "character")+" of content for models in total", 0)
		p.Errors = []run.Field{{Pointer: at, Detail: p.Detail}}
		return p
	}
	return nil
}

// Size implements [run.Files].
func (f runFiles) Size(who access.Principal, id string) int64 {
	if f.s.o.FileStore == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(f.s.ctx, filesTimeout)
	defer cancel()
	file, _ := f.s.o.FileStore.Find(ctx, who.Owner(), id) // Open returns the error
	return file.Size
}

// Keep implements [run.Files]: images and sounds that a model made are stored as files of the run's caller. Other media are not stored.
func (f runFiles) Keep(ctx context.Context, owner, claimed string, data []byte) (string, error) {
	s, kind := f.s, adapter.SniffMedia(data, claimed)
	if s.o.FileStore == nil {
		return "", nil
	}
	if of := adapter.MediaKind(kind); of != adapter.KindImage && of != adapter.KindAudio {
		return "", fmt.Errorf("%w: it is of the type %s", bot.ErrMediaBroken, kind)
	}
	if int64(len(data)) > s.o.Files.MaxSize {
		return "", bot.ErrMediaTooLarge
	}
	if p := s.roomForFile(ctx, owner, int64(len(data))); p != nil {
		return "", p
	}
	name := "made"
	if ends, _ := mime.ExtensionsByType(kind); len(ends) > 0 {
		name += ends[len(ends)-1]
	}
	file, err := s.keepFile(ctx, owner, name, kind, data)
	if err != nil {
		return "", err
	}
	return filesPath + "/" + file.ID + "/content", nil
}
