{{- /* The name of all objects. A CronJob has at most 52 characters. */ -}}
{{- define "ackproof.name" -}}
{{- $chart := default .Chart.Name .Values.nameOverride -}}
{{- $release := ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name) -}}
{{- default $release .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- /* A ClusterRole has no namespace, and releases of the same name are in several. */ -}}
{{- define "ackproof.clusterName" -}}
{{ .Release.Namespace }}-{{ include "ackproof.name" . }}
{{- end }}

{{- define "ackproof.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ackproof.labels" -}}
{{ include "ackproof.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "ackproof.account" -}}
{{- $made := ternary (include "ackproof.name" .) "default" .Values.serviceAccount.create -}}
{{- default $made .Values.serviceAccount.name -}}
{{- end }}

{{- define "ackproof.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}

{{- define "ackproof.claim" -}}
{{ default (printf "%s-results" (include "ackproof.name" .)) .Values.results.existingClaim }}
{{- end }}

{{- /* The argument that names the campaign. Refuses values that contradict one another. */ -}}
{{- define "ackproof.campaign" -}}
{{- $values := .Values -}}
{{- if and (eq $values.backend "kubernetes") (not $values.nodeImage) -}}
{{- fail "nodeImage: the backend kubernetes needs the image of a node: make docker-image builds it" -}}
{{- end -}}
{{- if eq $values.results.volume "emptyDir" -}}
{{- if not $values.results.copyTo -}}
{{- fail "results.volume: emptyDir goes with the pod, and all results with it: set results.copyTo, or take a claim" -}}
{{- end -}}
{{- if $values.server.enabled -}}
{{- fail "server.enabled: there are results to serve on a claim only: set it to false, or results.volume to claim" -}}
{{- end -}}
{{- end -}}
{{- if hasKey $values.campaigns $values.campaign -}}
/campaigns/{{ $values.campaign }}
{{- else if contains "." $values.campaign -}}
{{- fail (printf "campaign: %s is not among campaigns (%s)" $values.campaign (keys $values.campaigns | sortAlpha | join ", " | default "there are none")) -}}
{{- else -}}
{{ $values.campaign }}
{{- end -}}
{{- end }}

{{- /* What all pods have in common. */ -}}
{{- define "ackproof.pod" -}}
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "ackproof.container" -}}
image: {{ include "ackproof.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
workingDir: /work
{{- end }}
