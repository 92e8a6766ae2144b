package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/mediapart"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/request"
)

// Files are what callers have uploaded, and what models have made. Each is a tape of its own in the store of sessions, with one event that
// describes it and one blob: so every store has them, replicas see each other's, and erasing the tape erases the file.
//
// The id of a file says when it expires and how large it is, so that a list of tapes is enough to sweep them and to count a caller's. Nobody can
// make up an id: there has to be a tape of that name.

// Files bound uploaded files; zero is the default of a member.
type Files struct {
	MaxSize   int64         // bytes of one, 16 MiB
	MaxCount  int           // of one caller, 1000
	MaxBytes  int64         // of all files of one caller, 256 MiB
	Retention time.Duration // 7 days
	Types     []string      // of adapter.MediaKinds, and "text"; all of them but "file"
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
	// filesSpace is the workspace that the tapes of files are of: no folder, so that no session is in it.
	filesSpace = tape.FilesWorkspace
	// filesTimeout bounds the reading and writing of one.
	filesTimeout = 30 * time.Second
	// uploadTimeout is how long a client may take to send a file.
	uploadTimeout = 2 * time.Minute
	// uploadBeside is what a form has beside the file in it, in bytes.
	uploadBeside = 64 << 10
	// sweepFilesEvery is between looks for files that have expired; they cannot be read any more from the moment on that they have.
	sweepFilesEvery = 10 * time.Minute

	limitFiles = "limit_files"
)

// upload describes a file. The members are OpenAI's, and behind them ours.
type upload struct {
	ID        string `json:"id"`
	Object    string `json:"object"`  // "file"
	Purpose   string `json:"purpose"` // "user_data": the only one, whatever the client says
	Status    string `json:"status"`  // "processed"
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt int64  `json:"expires_at"`
	Filename  string `json:"filename"`
	Type      string `json:"type"` // "image/png"
	SHA256    string `json:"sha256"`
}

// What a file has that OpenAI's clients expect. A file can be used as soon as it is there, by all that takes files.
const (
	filePurpose = "user_data"
	fileStatus  = "processed"
)

var fileCoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newFileID makes the id of a file: when it expires, its size, and 80 random bits.
func newFileID(expires time.Time, size int64) string {
	var b [20]byte
	binary.BigEndian.PutUint64(b[:8], uint64(expires.Unix())<<24|uint64(size)>>16&0xffffff) // 40 bits of each
	binary.BigEndian.PutUint16(b[8:10], uint16(size))
	_, _ = rand.Read(b[10:]) // it never fails
	return "file_" + fileCoding.EncodeToString(b[:])
}

// readFileID takes the id of a file apart; ok is false for what is none.
func readFileID(id string) (expires time.Time, size int64, ok bool) {
	text, ok := strings.CutPrefix(id, "file_")
	b, err := fileCoding.DecodeString(text)
	if !ok || err != nil || len(b) != 20 {
		return time.Time{}, 0, false
	}
	both := binary.BigEndian.Uint64(b[:8])
	return time.Unix(int64(both>>24), 0), int64(both&0xffffff)<<16 | int64(binary.BigEndian.Uint16(b[8:10])), true
}

// noFiles is the answer of a server that keeps none.
const noFiles = "files are not configured on this server"

// errNoFile says that a caller has no such file.
var errNoFile = errors.New("unknown file; it never existed, has expired, or belongs to another caller")

// keepFile stores a file for its owner. ctx ends with what asks for it.
func (s *Server) keepFile(ctx context.Context, owner, name, kind string, data []byte) (upload, error) {
	ctx, cancel := context.WithTimeout(ctx, filesTimeout)
	defer cancel()
	now := time.Now()
	expires := now.Add(s.o.Files.Retention)
	sum := sha256.Sum256(data)
	f := upload{
		ID: newFileID(expires, int64(len(data))), Object: "file", Purpose: filePurpose, Status: fileStatus, Bytes: int64(len(data)), CreatedAt: now.Unix(), ExpiresAt: expires.Unix(),
		Filename: name, Type: kind, SHA256: hex.EncodeToString(sum[:]),
	}
	t, err := tape.Open(ctx, s.o.Tapes, filesSpace, webchannel.SessionKey(owner, f.ID))
	if err != nil {
		return upload{}, err
	}
	handle, err := t.PutBlob(ctx, data)
	if err == nil {
		_, err = t.Append(ctx, tape.NewEvent("file", f).With(tape.Meta{Spill: []tape.Spill{{Handle: handle, Size: f.Bytes}}}))
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), filesTimeout)
		defer cancel()
		return upload{}, errors.Join(err, t.Delete(ctx))
	}
	return f, nil
}

// findFile finds a file of an owner.
func (s *Server) findFile(ctx context.Context, owner, id string) (*tape.Tape, upload, error) {
	var f upload
	if expires, _, ok := readFileID(id); !ok || !time.Now().Before(expires) || s.o.Tapes == nil {
		return nil, f, errNoFile
	}
	t, err := tape.Lookup(ctx, s.o.Tapes, filesSpace, webchannel.SessionKey(owner, id))
	if errors.Is(err, tape.ErrNotFound) || errors.Is(err, tape.ErrInvalid) {
		return nil, f, errNoFile
	}
	if err != nil {
		return nil, f, err
	}
	for e, err := range t.Read(ctx, tape.Query{Kinds: []tape.Kind{tape.KindEvent}, Newest: true, Limit: 1}) {
		var event struct{ Data *upload }
		if err == nil {
			event.Data = &f
			err = json.Unmarshal(e.Payload, &event)
		}
		if err != nil {
			return nil, f, err
		}
	}
	if f.ID != id {
		return nil, f, errNoFile // it is being written
	}
	f.Purpose, f.Status = filePurpose, fileStatus // which older files lack
	return t, f, nil
}

// readFile returns what is in a file.
func (s *Server) readFile(ctx context.Context, owner, id string) (upload, []byte, error) {
	t, f, err := s.findFile(ctx, owner, id)
	if err != nil {
		return f, nil, err
	}
	data, _, err := t.ReadBlob(ctx, f.SHA256, 0, math.MaxInt64) // stores name a blob after its hash
	if errors.Is(err, tape.ErrNotFound) || errors.Is(err, tape.ErrDeleted) {
		err = errNoFile
	}
	return f, data, err
}

// fileProblem is the answer to an error with a file.
func (s *Server) fileProblem(ctx context.Context, err error) *wire.Problem {
	switch {
	case errors.Is(err, errNoFile), errors.Is(err, tape.ErrDeleted):
		return wire.NewProblem(wire.CodeNotFound, errNoFile.Error())
	case errors.Is(err, errors.ErrUnsupported):
		return wire.NewProblem(wire.CodeNotFound, noFiles)
	case errors.Is(err, tape.ErrTooMany):
		return reached(limitFiles, "the server reached its limit of sessions and files; it accepts no new files", run.SessionsRetry)
	case errors.Is(err, tape.ErrTooLarge):
		return wire.NewProblem(wire.CodeTooLarge, "the server has no space for a file of this size")
	case vfs.Failed(err):
		s.shed.DiskFailed()
		return reached(run.LimitDisk, "the server's disk is full or has failed, so it cannot store or read files; retry later", run.DiskRetry)
	case run.IsOverloaded(err), errors.Is(err, context.DeadlineExceeded):
		p := wire.NewProblem(wire.CodeOverloaded, "the server cannot reach the files at the moment; retry later")
		p.Retry = run.TapesRetry
		return p
	}
	p := wire.NewProblem(wire.CodeInternal, "the server cannot store or read the file; find the cause in its log under this id")
	p.ID = run.NewID()
	s.log.ErrorContext(ctx, "file store failed", "id", p.ID, "error", err)
	return p
}

// roomForFile refuses a file beyond what a caller may keep. What two uploads at once add is counted by the next one.
func (s *Server) roomForFile(ctx context.Context, owner string, size int64) *wire.Problem {
	if s.shed.failed.Load() || s.shed.disk.over.Load() {
		return reached(run.LimitDisk, "the server's disk is nearly full or has failed, so it accepts no files; retry later", run.DiskRetry)
	}
	count, held := 0, size
	now := time.Now()
	for in, err := range s.o.Tapes.Sessions(ctx, tape.SessionQuery{Workspace: tape.ResolveWorkspace(filesSpace), Prefix: webchannel.SessionPrefix(owner)}) {
		if err != nil {
			return s.fileProblem(ctx, err)
		}
		id, _ := webchannel.SessionName(owner, in.Session)
		if expires, size, ok := readFileID(id); ok && now.Before(expires) {
			count, held = count+1, held+size
		}
	}
	if count >= s.o.Files.MaxCount {
		p := wire.NewProblem(wire.CodeRateLimited, "you have "+wording.Plural(int64(count), "file")+", the limit of one caller; delete some with DELETE /v1/files/{id}")
		p.Reason, p.Retry = limitFiles, run.SessionsRetry
		return p
	}
	if held > s.o.Files.MaxBytes {
		p := wire.NewProblem(wire.CodeRateLimited, "your files would exceed "+wording.Plural(s.o.Files.MaxBytes, "byte")+", the limit of one caller; delete some with DELETE /v1/files/{id}")
		p.Reason, p.Retry = limitFiles, run.SessionsRetry
		return p
	}
	return nil
}

// keepsFiles lets requests through on a server that keeps files.
func (s *Server) keepsFiles(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		if s.o.Tapes == nil {
			return wire.NewProblem(wire.CodeNotFound, noFiles)
		}
		return h(w, r)
	}
}

// postFile keeps an uploaded file: of a form's field file, or the body itself with its name in the query.
func (s *Server) postFile(w http.ResponseWriter, r *http.Request) *wire.Problem {
	name := ""
	d := new(request.Decoder)
	p := wire.Query(d, r, request.Parameters{"filename": func(value string) { name = value }})
	if p == nil && r.ContentLength > s.o.Files.MaxSize+uploadBeside {
		p = tooLargeBody(w, r, s.o.Files.MaxSize)
	}
	if p == nil && s.shed.memory.over.Load() {
		p = littleMemory("the server is close to its memory limit and starts no new runs; retry later")
	}
	var body []byte
	if p == nil {
		body, p = s.readUpTo(w, r, s.o.Files.MaxSize+uploadBeside, uploadTimeout)
	}
	var f upload
	if p == nil {
		f, p = s.uploadOf(r, name, body)
	}
	if p != nil {
		return p
	}
	w.Header().Set("Location", filesPath+"/"+f.ID)
	s.wire.SendJSON(w, r, http.StatusCreated, f)
	return nil
}

func (s *Server) uploadOf(r *http.Request, name string, data []byte) (upload, *wire.Problem) {
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
		p := wire.NewProblem(wire.CodeTooLarge, "the file is larger than "+wording.Plural(s.o.Files.MaxSize, "byte")+"; the operator can raise files.max_size")
		p.Reason = limitBody
		return upload{}, p
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
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler)
		}
		return upload{}, s.fileProblem(r.Context(), err)
	}
	return f, nil
}

// fileOfForm finds the file in a form. Other fields, such as the purpose that OpenAI's clients send, say nothing here.
func fileOfForm(body []byte, boundary string) (name, kind string, data []byte, p *wire.Problem) {
	form := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			return "", "", nil, wire.Invalid(run.Field{Detail: "expected a form with the file in the field file"})
		}
		if err != nil {
			return "", "", nil, wire.Invalid(run.Field{Detail: "the form is incomplete; send it again"})
		}
		if part.FormName() != "file" {
			continue
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return "", "", nil, wire.Invalid(run.Field{Detail: "the form is incomplete; send it again"})
		}
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if err != nil {
			kind = "application/octet-stream"
		}
		return part.FileName(), kind, data, nil
	}
}

// getFile describes a file.
func (s *Server) getFile(w http.ResponseWriter, r *http.Request) *wire.Problem {
	_, f, err := s.findFile(r.Context(), wire.Who(r).Owner(), wire.PathValue(r, "id"))
	if err != nil {
		return s.fileProblem(r.Context(), err)
	}
	s.wire.SendJSON(w, r, http.StatusOK, f)
	return nil
}

// getFileContent sends what is in a file. A browser does nothing with it but to show pictures and play sounds: it is a stranger's.
func (s *Server) getFileContent(w http.ResponseWriter, r *http.Request) *wire.Problem {
	id := wire.PathValue(r, "id")
	_, size, _ := readFileID(id)
	release, ok := s.o.Ledger.Hold(size)
	if !ok {
		return littleMemory("the server has no memory for this file now; retry later")
	}
	defer release()
	f, data, err := s.readFile(r.Context(), wire.Who(r).Owner(), id)
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
	h.Set("Content-Disposition", mime.FormatMediaType(shown, map[string]string{"filename": f.Filename}))
	s.wire.Send(w, r, http.StatusOK, f.Type, data)
	return nil
}

// deleteFile erases a file.
func (s *Server) deleteFile(w http.ResponseWriter, r *http.Request) *wire.Problem {
	t, f, err := s.findFile(r.Context(), wire.Who(r).Owner(), wire.PathValue(r, "id"))
	if err == nil {
		err = t.Delete(r.Context())
	}
	if err != nil {
		return s.fileProblem(r.Context(), err)
	}
	s.wire.SendJSON(w, r, http.StatusOK, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{f.ID, "file", true})
	return nil
}

// sweepFiles erases files that have expired. It ends with Close. Replicas do it side by side, which does no harm.
func (s *Server) sweepFiles() {
	for backoff.Sleep(s.ctx, sweepFilesEvery) == nil {
		var expired []string
		for in, err := range s.o.Tapes.Sessions(s.ctx, tape.SessionQuery{Workspace: tape.ResolveWorkspace(filesSpace)}) {
			if err != nil {
				break // the next time
			}
			id := in.Session
			if at := strings.LastIndex(id, "file_"); at > 0 {
				id = id[at:]
			}
			if expires, _, ok := readFileID(id); ok && time.Now().After(expires) {
				expired = append(expired, in.Tape)
			}
		}
		for _, name := range expired {
			if err := s.o.Tapes.Delete(s.ctx, name); err != nil && s.ctx.Err() == nil {
				s.log.WarnContext(s.ctx, "cannot delete an expired file; retrying", "tape", name, "error", err)
				break
			}
		}
	}
}

// openFiles puts the data of uploaded files in the place of their ids. The list is a new one.
func (s *Server) openFiles(by access.Principal, at string, list []adapter.Part) ([]adapter.Part, *wire.Problem) {
	if len(list) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, filesTimeout)
	defer cancel()
	opened := make([]adapter.Part, len(list))
	for i, p := range list {
		if opened[i] = p; mediapart.Ref(&p) == "" {
			continue
		}
		at := at + "/" + strconv.Itoa(i)
		f, data, err := s.readFile(ctx, by.Owner(), mediapart.Ref(&p))
		if errors.Is(err, errNoFile) {
			return nil, wire.Invalid(run.Field{Pointer: at, Detail: errNoFile.Error()})
		}
		if err != nil {
			return nil, s.fileProblem(ctx, err)
		}
		url, kind := adapter.DataURL(f.Type, data), adapter.MediaKind(f.Type)
		switch {
		case kind == adapter.KindImage:
			opened[i] = adapter.Part{Type: "image_url", Image: url}
		case p.Image != "":
			return nil, wire.Invalid(run.Field{Pointer: at, Detail: "expected an image, found a file of the type " + f.Type})
		default:
			opened[i] = adapter.Part{Type: "file", File: url, Name: cmp.Or(p.Name, f.Filename)}
		}
		if kind == "text" && len(data) > s.shed.o.Input {
			p := wire.Invalid(run.Field{Pointer: at, Detail: "expected at most " + wording.Plural(int64(s.shed.o.Input), "character") + " of content for models in total"})
			tooMuch := wire.NewProblem(wire.CodeTooLarge, p.Detail)
			tooMuch.Reason, tooMuch.Errors = run.LimitInput, p.Errors
			return nil, tooMuch
		}
	}
	return opened, nil
}

// keepMedia keeps an image or a sound that a model made as a file of its run's caller, and returns its address. What else models send is not kept.
func (s *Server) keepMedia(ctx context.Context, owner, claimed string, data []byte) (string, error) {
	kind := adapter.SniffMedia(data, claimed)
	if s.o.Tapes == nil {
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
	f, err := s.keepFile(ctx, owner, name, kind, data)
	if err != nil {
		return "", err
	}
	return filesPath + "/" + f.ID + "/content", nil
}

// runFiles are the files of the server, as runs use them.
type runFiles struct{ s *Server }

// Open implements [run.Files].
func (f runFiles) Open(who access.Principal, at string, list []adapter.Part) ([]adapter.Part, error) {
	opened, p := f.s.openFiles(who, at, list)
	if p != nil {
		return nil, p.AsError()
	}
	return opened, nil
}

// Size implements [run.Files].
func (f runFiles) Size(id string) int64 {
	_, size, _ := readFileID(id)
	return size
}

// Keep implements [run.Files].
func (f runFiles) Keep(ctx context.Context, owner, kind string, data []byte) (string, error) {
	return f.s.keepMedia(ctx, owner, kind, data)
}
