/** The CLI imports only types of wire/, because the schemas would slow its start. */
export const MASTER_KEY_PATH = '/api/admin/secrets/master-key'
export const ROTATE_MASTER_KEY_PATH = '/api/admin/secrets/rotate-master'

const MEMBERS = ['id', 'since', 'rotation.phase', 'rotation.to', 'rotation.started_at']

/** How the master key is shown. No field contains a key. */
export const MASTER_KEY_VIEW = {
  idPath: 'id',
  members: ['id', 'since', 'rotation'],
  columns: MEMBERS.map((path) => ({ path })),
}
