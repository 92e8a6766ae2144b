package config

import (
	"strings"
	"testing"
)

// MO-25
func TestRulesOfMediaAndTypesOfFilesAreChecked(t *testing.T) {
	for env, want := range map[string]string{
		"LINGSERVE_MEDIA=mine:x=image+film":       `LINGSERVE_MEDIA: media: "film" is not a kind of media; expected image, pdf, audio, file or none`,
		"LINGSERVE_MEDIA=x=image":                 `LINGSERVE_MEDIA: media: "x=image" is not a rule`,
		"LINGSERVE_FILES_TYPES=image,film":        `LINGSERVE_FILES_TYPES: files.types: "film" is invalid; expected one of image, pdf, audio, text, file`,
		"LINGSERVE_FILES_RETENTION=0s":            "files.retention",
		"LINGSERVE_MEDIA=mine:x=image,old:*=none": "",
	} {
		_, err := Load(nil, []string{env})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", env, err)
		}
	}
}
