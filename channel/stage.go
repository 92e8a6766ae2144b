package channel

// Stage is a step of a turn.
type Stage string

// The stages, in order.
const (
	StageIngest    Stage = "ingest"
	StageClassify  Stage = "classify"
	StagePreflight Stage = "preflight"
	StageResolve   Stage = "resolve"
	StageAuthorize Stage = "authorize"
	StageAssemble  Stage = "assemble"
	StageRecord    Stage = "record"
	StageDispatch  Stage = "dispatch"
	StageFinalize  Stage = "finalize"
)

// Stages lists them.
func Stages() []Stage {
	return []Stage{
		StageIngest, StageClassify, StagePreflight, StageResolve, StageAuthorize, StageAssemble, StageRecord, StageDispatch, StageFinalize,
	}
}
