{{- define "stint.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "stint.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/* What never changes of a component: (dict "root" $ "component" "server"). */}}
{{- define "stint.selectorLabels" -}}
app.kubernetes.io/name: {{ include "stint.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "stint.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{ include "stint.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Metadata of one object: (dict "root" $ "component" "server" "name" "..." "labels" dict "annotations" dict). */}}
{{- define "stint.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "stint.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "stint.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ printf "%s@%s" .repository .digest }}{{ else }}{{ printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}{{ end }}
{{- end }}
{{- end }}

{{- define "stint.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "stint.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Whether the release makes its own database; hooks run before it is there. */}}
{{- define "stint.ownDatabase" -}}
{{- if or .Values.postgres.enabled .Values.cloudnativePg.enabled }}true{{ end }}
{{- end }}

{{- define "stint.migrateMode" -}}
{{- if and (eq .Values.migrate.mode "hook") (include "stint.ownDatabase" .) }}init{{ else }}{{ .Values.migrate.mode }}{{ end }}
{{- end }}

{{/* The URL that the chart puts into a Secret of its own; empty when it comes from elsewhere. */}}
{{- define "stint.databaseUrl" -}}
{{- if .Values.postgres.enabled }}
{{- printf "postgres://stint:%s@%s-postgres:5432/stint" (required "postgres.password is required with postgres.enabled" .Values.postgres.password) (include "stint.fullname" .) }}
{{- else if not .Values.cloudnativePg.enabled }}
{{- .Values.database.url }}
{{- end }}
{{- end }}

{{- define "stint.databaseRef" -}}
{{- if include "stint.databaseUrl" . }}
name: {{ include "stint.fullname" . }}
key: database-url
{{- else if .Values.cloudnativePg.enabled }}
name: {{ include "stint.fullname" . }}-postgres-app
key: uri
{{- else }}
name: {{ required "database.existingSecret or database.url is required" .Values.database.existingSecret }}
key: {{ .Values.database.existingSecretKey }}
{{- end }}
{{- end }}

{{/* Where the migrating role's URL is: a hook comes before the release's own Secret, so it has a copy. */}}
{{- define "stint.migrateRef" -}}
{{- if .Values.migrate.existingSecret }}
name: {{ .Values.migrate.existingSecret }}
key: {{ .Values.migrate.existingSecretKey }}
{{- else if and (eq (include "stint.migrateMode" .) "hook") (include "stint.databaseUrl" .) }}
name: {{ include "stint.fullname" . }}-migrate
key: database-url
{{- else }}
{{- include "stint.databaseRef" . }}
{{- end }}
{{- end }}

{{- define "stint.adminSecret" -}}
{{- if .Values.admin.key }}{{ include "stint.fullname" . }}{{ else }}{{ required "admin.existingSecret or admin.key is required" .Values.admin.existingSecret }}{{ end }}
{{- end }}

{{- define "stint.adminSecretKey" -}}
{{- if .Values.admin.key }}admin-key{{ else }}{{ .Values.admin.existingSecretKey }}{{ end }}
{{- end }}

{{- define "stint.issuersConfigMap" -}}
{{- if .Values.jwtIssuers.existingConfigMap }}{{ .Values.jwtIssuers.existingConfigMap }}{{ else if .Values.jwtIssuers.issuers }}{{ include "stint.fullname" . }}-issuers{{ end }}
{{- end }}

{{/* What a stop takes at most is the delay, the drain and 1 s; the rest is slack. */}}
{{- define "stint.gracePeriod" -}}
{{- $needed := add .Values.config.drainDelaySeconds .Values.config.drainSeconds 1 }}
{{- $given := .Values.terminationGracePeriodSeconds }}
{{- if eq (toString $given) "" }}
{{- add $needed 9 }}
{{- else if lt (int $given) (int $needed) }}
{{- fail (printf "terminationGracePeriodSeconds %d is too short: a stop takes up to %d s (config.drainDelaySeconds + config.drainSeconds + 1)" (int $given) (int $needed)) }}
{{- else }}
{{- int $given }}
{{- end }}
{{- end }}

{{/*
What every Pod of the image shares. Service links are off: a Service called stint would put STINT_PORT and others into the
environment, and the service refuses variables that it does not know.
*/}}
{{- define "stint.podBase" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end }}

{{- define "stint.containerBase" -}}
image: {{ include "stint.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- end }}

{{/* The container that migrates, of the hook and of the Pods. */}}
{{- define "stint.migrateContainer" -}}
- name: migrate
  {{- include "stint.containerBase" . | nindent 2 }}
  args: [migrate]
  env:
    - name: STINT_DATABASE_URL
      valueFrom:
        secretKeyRef:
          {{- include "stint.migrateRef" . | trim | nindent 10 }}
    - name: STINT_LOG_LEVEL
      value: {{ .Values.config.logLevel }}
    {{- with .Values.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  resources:
    {{- toYaml .Values.migrate.resources | nindent 4 }}
  {{- with .Values.extraVolumeMounts }}
  volumeMounts:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
