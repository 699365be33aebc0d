export const INDEX_VIEW = {
  columns: [
    { path: 'name' },
    { path: 'documentCount', title: 'DOCUMENTS' },
    { path: 'type' },
    { path: 'createdAt', title: 'CREATED' },
    { path: 'description', flexible: true },
  ],
  idPath: 'id',
  none: 'No indexes yet. Create one:  aigw indexes create NAME',
}
