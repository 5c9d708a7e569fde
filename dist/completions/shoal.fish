# fish completion for shoal and its links. The program itself says what can come next, nodes and PIDs of the running space among it;
# where it has no offer, fish completes names of files.
function __shoal_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l offers (command shoal complete (count $before) -- $before "$current" 2>/dev/null)
    if test (count $offers) -gt 0
        printf '%s\n' $offers
    else
        __fish_complete_path "$current"
    end
end
for name in shoal bpsh bpcp bpstat bpctl shoal-rsh
    complete -c $name -f -a '(__shoal_complete)'
end
