package trail

import (
	"log/slog"
	"strings"
)

// Level is that of the line about work that has failed with this code, the same for whatever work it is: an error where somebody must
// act, since it will not get better by itself; a warning where somebody may want to; else what belongs to the life of a server, whose
// callers make mistakes. One failure has one such line: all others about it are at info, or below.
func Level(code string) slog.Level {
	switch {
	case code == "internal", code == "upstream_auth":
		return slog.LevelError
	case strings.HasPrefix(code, "upstream_"), code == "output_invalid", code == "output_refused", code == "overloaded":
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
