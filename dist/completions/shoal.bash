# bash completion for shoal and its links. The program itself says what can come next, nodes and PIDs of the running space among it;
# where it has no offer, bash completes names of files.
_shoal() {
    local cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD line before
    # bash takes words apart at = and :, bash-completion puts them together.
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n =: cur words cword
    fi
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <(shoal complete "$cword" -- "${words[@]}" 2>/dev/null)
    # Only what stands behind the last of these is replaced.
    if [[ $cur == *[=:]* ]]; then
        before=${cur%"${cur##*[=:]}"}
        COMPREPLY=("${COMPREPLY[@]#"$before"}")
    fi
    # A place on a node follows the node.
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o default -F _shoal shoal bpsh bpcp bpstat bpctl shoal-rsh
