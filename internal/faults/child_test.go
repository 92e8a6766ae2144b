package faults

const childEnv = "LINGSERVE_FAULTS_CHILD"

func child() int { return 2 }
