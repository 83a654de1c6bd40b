-- Writes what the script changed, once.
function Save.all()
  for _, ws in pairs(Workspaces.known) do Workspaces.save(ws) end
  for _, node in pairs(Nodes.known) do Nodes.save(node) end
  for _, gate in pairs(Gates.known) do Gates.save(gate) end
  Meta.save()
end
